"""Reading and writing: data sets in many formats, labels, results and the model file."""
