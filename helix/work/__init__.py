"""Work in the sessions of a store: failures and their fixes, commands, files and commits."""
