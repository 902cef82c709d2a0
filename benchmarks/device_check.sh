#!/usr/bin/env bash
# Checks on a machine with a GPU what no CPU can show: the default audit on cuda and cpu, its evidence copied to $OUT.
# One command, a few minutes: OUT=/tmp/device-check benchmarks/device_check.sh
# It takes the PyTorch that is there; PYTHON names the interpreter (default: python3).
set -uo pipefail
cd "$(dirname "$0")/.."

OUT="${OUT:?set OUT to a folder for the evidence}"
PYTHON="${PYTHON:-python3}"
export PYTHONUNBUFFERED=1
mkdir -p "$OUT"

"$PYTHON" -c 'import torch; print(torch.__version__, torch.version.cuda, torch.cuda.get_device_name(0))' || exit 2
"$PYTHON" -m repro_audit env --format yaml >"$OUT/environment.yaml"

"$PYTHON" -m repro_audit run --require-device cuda --device cpu --timeout 120 --output "$OUT/reports" 2>&1 | tee "$OUT/audit.txt"
audit=${PIPESTATUS[0]}

# Repeats show rare races; strict mode's own claim is on the training workloads.
"$PYTHON" -m repro_audit run mlp 'conv*' 'lstm*' 'transformer*' 'scatter*' --device cuda --repeats 5 --timeout 120 \
    --output "$OUT/repeats" 2>&1 | tee "$OUT/repeats.txt"
"$PYTHON" -m repro_audit inventory --device cuda --timeout 120 --output "$OUT/inventory" 2>&1 | tee "$OUT/inventory.txt"

# The tests that need a device.
"$PYTHON" -m pytest -q -m cuda 2>&1 | tee "$OUT/tests.txt"

nvidia-smi >"$OUT/nvidia-smi.txt" 2>&1 || true
echo "audit exit code: $audit" | tee -a "$OUT/audit.txt"
exit "$audit"
