"""Apache RocketMQ 4.9.7 as the other side of our tests: its servers, its Java client and its admin tool.

Read in this order:

- `toolchain`: a JDK, Maven, and the one build of `java/` (Apache's jars and the driver program of ours).
- `processes`: a child process with a log, ended by its own id.
- `remoting`: the smallest possible speaker of the wire protocol, written apart from our own, to check both sides with;
  `routes`: what it asks name servers.
- `apache`: Apache's name server, broker and mqadmin.
- `driver`: Apache's Java client, driven through a pipe.
- `ours`: our own servers as real processes.
"""
