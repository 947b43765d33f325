/* Files that come with the library as bytes within it: nothing to find at run time. */
#ifndef STW_BASE_SHIPPED_H
#define STW_BASE_SHIPPED_H

/* Between NAME_begin and NAME_end, a zero behind. */
#define STW_SHIPPED(name, file)         \
    __asm__(                            \
        ".pushsection .rodata\n"        \
        ".balign 16\n"                  \
        ".globl " name                  \
        "_begin\n"                      \
        ".hidden " name "_begin\n" name \
        "_begin:\n"                     \
        ".incbin \"" file               \
        "\"\n"                          \
        ".globl " name                  \
        "_end\n"                        \
        ".hidden " name "_end\n" name   \
        "_end:\n"                       \
        ".byte 0\n"                     \
        ".popsection\n")

#endif
