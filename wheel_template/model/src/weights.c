/* src/weights.c - the constants of all variants, embedded as they are.
 *
 * MODELWHEEL_WEIGHTS_FILE is the path of weights.bin, relative to a directory on the include path, so that no
 * path of the building machine gets into the object. */
#ifndef MODELWHEEL_WEIGHTS_FILE
#error "MODELWHEEL_WEIGHTS_FILE must name the file with the constants"
#endif

#define TEXT_(name) #name
#define TEXT(name) TEXT_(name) /* static libraries define the name as one of their own */

#if defined(__APPLE__) /* Mach-O */
#define SECTION ".const"
#define SYMBOL "_" TEXT(modelwheel_weights)
#define HIDE ".private_extern " SYMBOL "\n"
#elif defined(_WIN32) /* COFF: only symbols marked dllexport are visible from outside */
#define SECTION ".section .rdata,\"dr\""
#define SYMBOL TEXT(modelwheel_weights)
#define HIDE ""
#else /* ELF */
#define SECTION ".section .rodata.modelwheel_weights,\"a\""
#define SYMBOL TEXT(modelwheel_weights)
#define HIDE ".hidden " SYMBOL "\n"
#endif

/* clang-format off */
__asm__(
    SECTION "\n"
    ".globl " SYMBOL "\n"
    HIDE
    ".balign 64\n"
    SYMBOL ":\n"
    ".incbin \"" MODELWHEEL_WEIGHTS_FILE "\"\n"
    ".byte 0\n" /* so that an empty file has its own address, too */
    ".text\n");
/* clang-format on */

typedef int modelwheel_weights_are_embedded; /* ISO C requires a declaration in every file */
