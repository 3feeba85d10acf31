"""Speed and accuracy, each figure beside a published one or a peer's in the same run."""
