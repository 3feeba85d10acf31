"""The annotation tool: it stands on the library and uses its public names alone."""
