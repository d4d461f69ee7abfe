"""What a store knows about work: failures and their fixes, commands, files and commits."""
