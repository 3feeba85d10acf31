"""What every room stands on: bags, data sets, the forms of labels, checks, base classes, errors and types."""
