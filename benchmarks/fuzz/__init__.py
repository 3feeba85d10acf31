"""`make fuzz` and `make fuzz-guided`: damaged, mutated and made-up inputs for everything that reads bytes.

A kind of input is one declaration (`kinds.Kind`): a name, valid examples that the package makes itself, and what reads
and uses such an input. The declarations stand in `data`, `models`, `marks`, `media`, `runs` and `api`; both commands
take them from `kinds.find_kinds`.
"""
