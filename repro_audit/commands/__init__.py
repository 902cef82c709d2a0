"""What each command does, a module for each, so that a command imports no more than it needs."""
