/* Loops compiled once per generation of x86 processors; the loader takes the best. The compilers' sanitizers are not ready when
 * it chooses, and Clang 14 has no such levels: they get the one version. */
#ifndef STW_BACKEND_CPU_CLONES_H
#define STW_BACKEND_CPU_CLONES_H

#if defined(__x86_64__) && defined(__gnu_linux__) && defined(__GNUC__) && !defined(__clang__) && __GNUC__ >= 12 && \
    !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define STW_CLONES __attribute__((target_clones("default", "arch=x86-64-v3", "arch=x86-64-v4")))
/* At the head of a file: its products and sums may become one instruction where there is one, as in any matrix library. */
#define STW_FUSE _Pragma("GCC optimize(\"fp-contract=fast\")")
#else
#define STW_CLONES
#define STW_FUSE
#endif

#endif
