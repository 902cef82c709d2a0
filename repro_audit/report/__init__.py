"""What an audit found, on paper and on screen: everything here is drawn from one `AuditReport`."""
