"""Workloads that every audit must catch; `repro_audit.canary` says how each is to be caught."""
