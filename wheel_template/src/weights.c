/* src/weights.c - the constants of all variants, embedded as they are.
 *
 * MODELWHEEL_WEIGHTS_FILE is the path of weights.bin, relative to a directory on the include path, so that no
 * path of the building machine gets into the object. */
#ifndef MODELWHEEL_WEIGHTS_FILE
#error "MODELWHEEL_WEIGHTS_FILE must name the file with the constants"
#endif

#if defined(__APPLE__)
#define SECTION ".const_data"
#define SYMBOL "_modelwheel_weights"
#define HIDDEN ".private_extern "
#else
#define SECTION ".section .rodata.modelwheel_weights,\"a\""
#define SYMBOL "modelwheel_weights"
#define HIDDEN ".hidden "
#endif

/* clang-format off */
__asm__(
    SECTION "\n"
    ".globl " SYMBOL "\n"
    HIDDEN SYMBOL "\n"
    ".balign 64\n"
    SYMBOL ":\n"
    ".incbin \"" MODELWHEEL_WEIGHTS_FILE "\"\n"
    ".byte 0\n" /* an empty file still has an address of its own */
    ".text\n");
/* clang-format on */

typedef int modelwheel_weights_are_embedded; /* ISO C wants a declaration in every file */
