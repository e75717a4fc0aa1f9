"""Apache RocketMQ 4.9.7 as the other side of our tests: its servers, its Java client and its admin tool.

Read in this order:

- `toolchain`: a JDK, Maven, and the build of `java/` (Apache's jars and the driver program of ours); `java5/` has the
  servers of Apache RocketMQ 5.4.0, for our client.
- `processes`: a child process with a log, ended by its own id.
- `remoting`: the smallest possible speaker of the wire protocol, written apart from our own, to check both sides with;
  `routes`: what it asks name servers.
- `apache`: Apache's name server, broker and mqadmin.
- `driver`: Apache's Java client, driven through a pipe.
- `ours`: our own servers as real processes.
- `clusters`: a name server and brokers, Apache's or ours, for tests that run on either.

A test that runs on our cluster runs on Apache's too, which shows that what it expects is right, and some on one of both
makes. That costs time and tells little about our code, so those runs are marked `reference`: `make test` leaves them
out, `make interop-all` has them.
"""
