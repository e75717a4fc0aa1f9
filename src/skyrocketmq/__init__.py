"""RocketMQ in Python: name server, broker, clients, tools and a data pipeline.

The packages, each importing only what stands above it:

    errors, ports       one exception tree; clock, disk and link as protocols
    config, model       typed configuration; the values of the domain
    wire, filters       bytes to values and back; tag and SQL92 filters      (pure: no socket, thread, clock or file)
    store, net          the commit log and what is derived from it; connections
    nameserver, broker  the two servers
    client, admin       producers and consumers; administration
    dashboard, spark    the faces
    embedded, testing   everything in one process; a broker in a test
    cli                 the `skyrocketmq` command
"""

__version__ = "0.1.0"
