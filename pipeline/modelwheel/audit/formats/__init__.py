"""ELF, Mach-O and PE shared libraries."""
