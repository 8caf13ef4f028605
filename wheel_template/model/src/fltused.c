/* src/fltused.c - machine code for Windows that computes with floating point refers to this symbol, so that Microsoft's
 * linker takes the parts of the C library for it. That library defines it; MinGW's does not. Nobody reads the value. */
extern const int _fltused;
const int _fltused = 0x9875;
