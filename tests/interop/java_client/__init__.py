"""Apache's Java client on a cluster, with either encoding of headers: everything a program does with messages."""
