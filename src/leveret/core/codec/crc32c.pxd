# CRC-32C of byte runs, inlined into every compiled module that cimports it; the interpreted twin is checksum.py.
# Python libraries for it (google-crc32c) cost more a call than the checksum of a message; so it is computed here with
# the processor's own instruction, eight octets a step, or by a table where there is none.

cdef extern from *:
    """
    #include <stddef.h>
    #include <stdint.h>
    #include <string.h>

    static uint32_t leveret_crc_table[256];

    static inline uint32_t leveret_crc_by_table(uint32_t crc, const unsigned char* p, size_t size) {
        if (!leveret_crc_table[1]) {
            for (uint32_t i = 0; i < 256; i++) {
                uint32_t value = i;
                for (int bit = 0; bit < 8; bit++) value = (value >> 1) ^ (value & 1 ? 0x82F63B78u : 0);
                leveret_crc_table[i] = value;
            }
        }
        while (size--) crc = (crc >> 8) ^ leveret_crc_table[(crc ^ *p++) & 0xFF];
        return crc;
    }

    #if defined(__x86_64__) && defined(__GNUC__)
    __attribute__((target("sse4.2")))
    static inline uint32_t leveret_crc_by_instruction(uint32_t crc, const unsigned char* p, size_t size) {
        uint64_t wide = crc, word;
        for (; size >= 8; p += 8, size -= 8) {
            memcpy(&word, p, 8);
            wide = __builtin_ia32_crc32di(wide, word);
        }
        crc = (uint32_t) wide;
        while (size--) crc = __builtin_ia32_crc32qi(crc, *p++);
        return crc;
    }
    static inline int leveret_crc_has_instruction(void) { return __builtin_cpu_supports("sse4.2"); }
    #elif defined(__ARM_FEATURE_CRC32)
    #include <arm_acle.h>
    static inline uint32_t leveret_crc_by_instruction(uint32_t crc, const unsigned char* p, size_t size) {
        uint64_t word;
        for (; size >= 8; p += 8, size -= 8) {
            memcpy(&word, p, 8);
            crc = __crc32cd(crc, word);
        }
        while (size--) crc = __crc32cb(crc, *p++);
        return crc;
    }
    static inline int leveret_crc_has_instruction(void) { return 1; }
    #else
    #define leveret_crc_by_instruction leveret_crc_by_table
    static inline int leveret_crc_has_instruction(void) { return 0; }
    #endif

    static inline uint32_t leveret_crc32c(uint32_t crc, const unsigned char* p, ptrdiff_t start, ptrdiff_t end) {
        size_t size = (size_t) (end - start);
        crc = ~crc;
        crc = leveret_crc_has_instruction() ? leveret_crc_by_instruction(crc, p + start, size)
                                            : leveret_crc_by_table(crc, p + start, size);
        return ~crc;
    }
    """
    # Goes on from `crc`, 0 or whatever the caller salts its sums with, over p[start:end].
    unsigned int crc32c "leveret_crc32c"(unsigned int crc, const unsigned char* p, Py_ssize_t start, Py_ssize_t end) noexcept nogil
