"""Where everything stands in what travels and in what is stored: names for every offset and size. No code.

All numbers are big-endian. An offset counts from the beginning of its record, cell, entry or frame; `_AT` names an
offset, `_BYTES` a size. Compiled modules get these numbers when they are loaded, so each stands here and nowhere else.
"""

from __future__ import annotations

from typing import Final

# ------------------------------------------------------------------------------------------------------------ frames
#
#   | length 4 | header word 4 | header | body |       the length counts what follows it
#
#   A binary header: | code 2 | language 1 | version 2 | opaque 4 | flag 4 | remark length 4 | remark |
#                    | ext length 4 | ( name length 2 | name | value length 4 | value ) ... |

FRAME_LENGTH_BYTES: Final = 4
FRAME_WORD_AT: Final = 4  # the header's encoding in the first byte, its length in the other three
FRAME_HEADER_AT: Final = 8
FRAME_BYTES_MAX: Final = 16_777_216  # with the length field
FRAME_LENGTH_MAX: Final = 16_777_212
FRAME_LENGTH_MIN: Final = 5  # the header word and one byte: an empty header is no header
HEADER_LENGTH_MASK: Final = 0xFFFFFF
HEADER_BINARY: Final = 1  # the first byte of the header word; 0 is JSON

BINARY_CODE_AT: Final = 0
BINARY_LANGUAGE_AT: Final = 2
BINARY_VERSION_AT: Final = 3
BINARY_OPAQUE_AT: Final = 5
BINARY_FLAG_AT: Final = 9
BINARY_REMARK_AT: Final = 13  # its length, then the remark
BINARY_BYTES_MIN: Final = 21  # without remark and fields
BINARY_NAME_LENGTH_BYTES: Final = 2
BINARY_VALUE_LENGTH_BYTES: Final = 4

# ----------------------------------------------------------------------------------------------------------- records
#
#   | total 4 | magic 4 | body crc 4 | queue id 4 | flag 4 | queue offset 8 | log offset 8 | system flag 4 |
#   | born time 8 | born host 8 or 20 | store time 8 | store host 8 or 20 | reconsumed 4 | prepared offset 8 |
#   | body length 4 | body | topic length 1 | topic | properties length 2 | properties |
#
#   Offsets from the born host on are those of two IPv4 hosts. An IPv6 host moves all that follows it by
#   `RECORD_IPV6_BYTES`; bits of the system flag say which host is one.

RECORD_TOTAL_AT: Final = 0
RECORD_MAGIC_AT: Final = 4
RECORD_CRC_AT: Final = 8
RECORD_QUEUE_ID_AT: Final = 12
RECORD_FLAG_AT: Final = 16
RECORD_QUEUE_OFFSET_AT: Final = 20
RECORD_LOG_OFFSET_AT: Final = 28
RECORD_SYS_FLAG_AT: Final = 36
RECORD_BORN_TIME_AT: Final = 40
RECORD_BORN_HOST_AT: Final = 48
RECORD_STORE_TIME_AT: Final = 56
RECORD_STORE_HOST_AT: Final = 64
RECORD_RECONSUMED_AT: Final = 72
RECORD_PREPARED_AT: Final = 76
RECORD_BODY_LENGTH_AT: Final = 84
RECORD_HEAD_BYTES: Final = 88  # everything before the body
RECORD_BYTES_MIN: Final = 91  # without body, topic and properties

RECORD_HOST_BYTES: Final = 8  # | IPv4 address 4 | port 4 |
RECORD_HOST_BYTES_IPV6: Final = 20
RECORD_IPV6_BYTES: Final = 12  # by which an IPv6 host is longer
RECORD_BORN_IPV6: Final = 0x10  # of the system flag
RECORD_STORE_IPV6: Final = 0x20
RECORD_TOPIC_LENGTH_BYTES: Final = 1
RECORD_PROPERTIES_LENGTH_BYTES: Final = 2

RECORD_UNQUEUED: Final = 0x4  # of the system flag: a prepared or rolled back message, which no queue has
RECORD_TRANSACTION_BITS: Final = 0xC
RECORD_ROLLED_BACK: Final = 0xC  # what those bits say of a message that was taken back

# The head as `struct` reads it, by which hosts are IPv6: none, the born host, the store host, both.
RECORD_HEAD_FORMATS: Final = (
    ">iIIiiqqiq8sq8siqi",
    ">iIIiiqqiq20sq8siqi",
    ">iIIiiqqiq8sq20siqi",
    ">iIIiiqqiq20sq20siqi",
)
RECORD_HOSTS_SHIFT: Final = 4  # of the system flag, to the bits that choose among them
RECORD_HOSTS_MASK: Final = 3

RECORD_MAGIC: Final = 0xDAA320A7
RECORD_CRC_MASK: Final = 0x7FFFFFFF  # the checksum goes without its highest bit
RECORD_TOPIC_BYTES_MAX: Final = 127  # a signed byte
RECORD_PROPERTIES_BYTES_MAX: Final = 32_767  # a signed short

# A blank record fills up a log file; only its first bytes are written: | space left in the file 4 | magic 4 |
BLANK_MAGIC: Final = 0xCBD43194
BLANK_BYTES: Final = 8
BLANK_FORMAT: Final = ">iI"

# Texts of properties: name, NAME_END, value, PAIR_END, and so on.
NAME_END: Final = 1
PAIR_END: Final = 2
KEYS_SEPARATOR: Final = 32  # between the keys of one message

# What queues and index look at: properties, and the topic where messages wait for the time that a property says.
UNIQ_KEY_PROPERTY: Final = b"UNIQ_KEY"
KEYS_PROPERTY: Final = b"KEYS"
TAGS_PROPERTY: Final = b"TAGS"
DELAY_PROPERTY: Final = b"DELAY"
SCHEDULE_TOPIC: Final = b"SCHEDULE_TOPIC_XXXX"
UNKNOWN_LEVEL_MS: Final = 1000  # how long a message waits where no level of delay is configured

# ----------------------------------------------------------------------------------------------------------- batches
#
#   A message within the body of a batch:
#   | total 4 | magic 4 = 0 | crc 4 = 0 | flag 4 | body length 4 | body | properties length 2 | properties |

BATCH_FLAG_AT: Final = 12
BATCH_BODY_LENGTH_AT: Final = 16
BATCH_HEAD_BYTES: Final = 20  # everything before the body
BATCH_PROPERTIES_LENGTH_BYTES: Final = 2
BATCH_ENTRY_BYTES_MIN: Final = 22  # without body and properties
BATCH_HEAD_FORMAT: Final = ">iiiii"

# ----------------------------------------------------------------------------------------------------- queue cells
#
#   | log offset 8 | record size 4 | tags code 8 |      cell n of a queue is at byte 20 * n

CELL_LOG_OFFSET_AT: Final = 0
CELL_SIZE_AT: Final = 8
CELL_TAGS_CODE_AT: Final = 12
CELL_BYTES: Final = 20
CELL_FILLER_SIZE: Final = 0x7FFFFFFF  # the size in a cell that keeps the place of a message that is not there
CELL_UNIT_ADDRESS_MAX: Final = -2_147_483_649  # a tags code up to this is the address of a unit of the extension

# ---------------------------------------------------------------------------------------------------- index entries
#
#   An index file: | header 40 | slot 4 | slot 4 | ... | entry 20 | entry 20 | ...
#   An entry:      | key hash 4 | log offset 8 | seconds since the file's begin time 4 | previous entry of the slot 4 |

INDEX_HEADER_BYTES: Final = 40
INDEX_SLOT_BYTES: Final = 4
INDEX_HASH_AT: Final = 0
INDEX_LOG_OFFSET_AT: Final = 4
INDEX_SECONDS_AT: Final = 12
INDEX_PREVIOUS_AT: Final = 16
INDEX_ENTRY_BYTES: Final = 20
INDEX_SECONDS_MAX: Final = 0x7FFFFFFF

# Keys on their way to the index: | key hash 4 | log offset 8 | store time 8 |. In memory only.
KEY_HASH_AT: Final = 0
KEY_LOG_OFFSET_AT: Final = 4
KEY_STORE_TIME_AT: Final = 12
KEY_BYTES: Final = 20

# What is kept of a send until it can be answered: | request number 4 | kind 1 | queue id 4 | queue offset 8 |
# | log offset 8 |. In memory only.
TICKET_OPAQUE_AT: Final = 0
TICKET_KIND_AT: Final = 4
TICKET_QUEUE_ID_AT: Final = 5
TICKET_QUEUE_OFFSET_AT: Final = 9
TICKET_LOG_OFFSET_AT: Final = 17
TICKET_BYTES: Final = 25
TICKET_BINARY: Final = 1  # of the kind: the answer has a binary header, else a JSON one
TICKET_HASTY: Final = 2  # of the kind: its sender does not wait for the disk or a slave
