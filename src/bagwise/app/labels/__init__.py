"""What people say about files before anything is learned: label tables, selections, sites."""
