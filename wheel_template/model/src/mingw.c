/* src/mingw.c - what machine code for Windows refers to, and Microsoft's C library defines, but MinGW's does not. */

/* Microsoft's linker takes the parts of the C library for floating point because of it. Nobody reads the value. */
extern const int _fltused;
const int _fltused = 0x9875;

/* Functions with more than a page of local variables call it with their bytes in rax. It touches each page below the
 * stack pointer, so that Windows maps them in turn, and changes no register. */
__asm__(
    ".text\n"
    ".globl __chkstk\n"
    "__chkstk:\n"
    "  push %rcx\n"
    "  push %rax\n"
    "  lea 24(%rsp), %rcx\n" /* the stack pointer before the call */
    "  cmp $4096, %rax\n"
    "  jb 2f\n"
    "1:\n"
    "  sub $4096, %rcx\n"
    "  test %rcx, (%rcx)\n"
    "  sub $4096, %rax\n"
    "  cmp $4096, %rax\n"
    "  ja 1b\n"
    "2:\n"
    "  sub %rax, %rcx\n"
    "  test %rcx, (%rcx)\n"
    "  pop %rax\n"
    "  pop %rcx\n"
    "  ret\n");
