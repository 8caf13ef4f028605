"""Everything that goes wrong below a program, for tests: one room for it.

| what | how | where |
|---|---|---|
| a call that fails: ENOSPC, EROFS, EIO, a short write, a lost network | a preloaded library | `calls` |
| a slow disk, a clock that is wrong | the same | `calls` |
| SIGKILL at each operation on a disk or a network | the same, in a process forked from the test's | `victims` |
| a disk that is full or read-only | a mount in a namespace of its own | `disks` |
| a power cut: what was not synced is gone | a record of every write, and all that a disk may make of it | `power` |
| no memory left: the system kills the largest process | SIGKILL to that process | `victims` |

`tests/support/indexes.py` and `tests/support/github.py` have servers that fail.
"""
