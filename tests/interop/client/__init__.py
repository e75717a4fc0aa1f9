"""Our client on a cluster of two brokers, ours and Apache's: one suite, the same expectations.

What our producer sends is read by Apache's client, and what Apache's sends by ours, so that neither vouches for itself.
Unlike elsewhere in `interop`, the runs on Apache's cluster are no reference: they are what a user of the client does.
"""
