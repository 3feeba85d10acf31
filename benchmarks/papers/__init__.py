"""Every table and figure of the five papers, ours beside the published."""
