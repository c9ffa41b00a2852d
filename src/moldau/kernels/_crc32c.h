/* CRC-32C (Castagnoli), the checksum of Kafka's record batches.
 *
 * Polynomial 0x1EDC6F41, reflected 0x82F63B78; register starts as all ones and is inverted at the end.
 *
 * Two ways, chosen once at run time:
 *   hardware   SSE4.2 `crc32` (x86-64) or ARMv8 `crc32c*`: 8 bytes per instruction. The instruction takes three cycles
 *              but one can start each cycle, so long inputs run as three lanes that are joined afterwards.
 *   portable   eight table look-ups per 8 bytes ("slicing by 8").
 *
 * Joining lanes: the register is linear over GF(2), so  crc(A||B from s) = shift(crc(A from s), |B|) ^ crc(B from 0),
 * where shift(c, n) multiplies c by x^(8n) modulo the polynomial. For the two fixed lane lengths that product is four
 * table look-ups.
 */
#ifndef MOLDAU_CRC32C_H
#define MOLDAU_CRC32C_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#if defined(__x86_64__) && (defined(__GNUC__) || defined(__clang__))
#define CRC_X86 1
#include <cpuid.h>
#elif defined(__aarch64__) && (defined(__GNUC__) || defined(__clang__)) && (defined(__linux__) || defined(__APPLE__))
#define CRC_ARM 1
#if defined(__linux__)
#include <sys/auxv.h>
#endif
#endif

#define CRC_POLYNOMIAL 0x82F63B78u
#define LONG_LANE 4096u
#define SHORT_LANE 256u

typedef uint32_t (*crc_function)(uint32_t state, const uint8_t *data, size_t size);

static uint32_t slicing_table[8][256];

static inline uint32_t
load_little_endian_32(const uint8_t *p)
{
    return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

static uint32_t
crc_portable(uint32_t state, const uint8_t *p, size_t size)
{
    while (size >= 8) {
        uint32_t low = state ^ load_little_endian_32(p);
        uint32_t high = load_little_endian_32(p + 4);
        state = slicing_table[7][low & 0xFF] ^ slicing_table[6][(low >> 8) & 0xFF] ^
                slicing_table[5][(low >> 16) & 0xFF] ^ slicing_table[4][low >> 24] ^ slicing_table[3][high & 0xFF] ^
                slicing_table[2][(high >> 8) & 0xFF] ^ slicing_table[1][(high >> 16) & 0xFF] ^
                slicing_table[0][high >> 24];
        p += 8;
        size -= 8;
    }
    while (size > 0) {
        state = (state >> 8) ^ slicing_table[0][(state ^ *p) & 0xFF];
        p++;
        size--;
    }
    return state;
}

#if defined(CRC_X86) || defined(CRC_ARM)

static uint32_t long_shift_table[4][256];
static uint32_t short_shift_table[4][256];

/* Product of two polynomials modulo the CRC polynomial; bit 31 is the coefficient of x^0. */
static uint32_t
polynomial_product(uint32_t a, uint32_t b)
{
    uint32_t product = 0;
    for (uint32_t bit = 0x80000000u; bit != 0; bit >>= 1) {
        if (a & bit) {
            product ^= b;
        }
        b = (b & 1u) ? (b >> 1) ^ CRC_POLYNOMIAL : b >> 1;
    }
    return product;
}

static uint32_t
polynomial_power_of_x(uint64_t exponent)
{
    uint32_t result = 0x80000000u; /* x^0 */
    uint32_t square = 0x40000000u; /* x^1 */
    for (; exponent != 0; exponent >>= 1) {
        if (exponent & 1u) {
            result = polynomial_product(result, square);
        }
        square = polynomial_product(square, square);
    }
    return result;
}

static void
fill_shift_table(uint32_t table[4][256], size_t bytes)
{
    uint32_t factor = polynomial_power_of_x((uint64_t)bytes * 8u);
    for (uint32_t place = 0; place < 4; place++) {
        for (uint32_t value = 0; value < 256; value++) {
            table[place][value] = polynomial_product(factor, value << (8 * place));
        }
    }
}

static inline uint32_t
shift_state(uint32_t table[4][256], uint32_t state)
{
    return table[0][state & 0xFF] ^ table[1][(state >> 8) & 0xFF] ^ table[2][(state >> 16) & 0xFF] ^
           table[3][state >> 24];
}

/* In assembly rather than through intrinsics: compilers do not agree on the name of the target feature that these need
 * (GCC: sse4.2, newer Clang: crc32), while every assembler knows the instructions. */
#if defined(CRC_X86)
#define CRC_NAME "sse4.2"

static inline uint64_t
crc_step_8(uint64_t state, const uint8_t *p)
{
    uint64_t word;
    memcpy(&word, p, 8);
    __asm__("crc32q %1, %0" : "+r"(state) : "rm"(word));
    return state;
}

static inline uint64_t
crc_step_1(uint64_t state, uint8_t byte)
{
    uint32_t narrow = (uint32_t)state;
    __asm__("crc32b %1, %0" : "+r"(narrow) : "qm"(byte));
    return narrow;
}

static int
crc_hardware_present(void)
{
    unsigned int eax, ebx, ecx, edx;
    return __get_cpuid(1, &eax, &ebx, &ecx, &edx) && (ecx & bit_SSE4_2) != 0;
}

#else /* CRC_ARM */
#define CRC_NAME "armv8"

static inline uint64_t
crc_step_8(uint64_t state, const uint8_t *p)
{
    uint64_t word;
    uint32_t result;
    memcpy(&word, p, 8);
    __asm__(".arch_extension crc\n\tcrc32cx %w0, %w1, %x2" : "=r"(result) : "r"((uint32_t)state), "r"(word));
    return result;
}

static inline uint64_t
crc_step_1(uint64_t state, uint8_t byte)
{
    uint32_t result;
    __asm__(".arch_extension crc\n\tcrc32cb %w0, %w1, %w2"
            : "=r"(result)
            : "r"((uint32_t)state), "r"((uint32_t)byte));
    return result;
}

static int
crc_hardware_present(void)
{
#if defined(__APPLE__)
    return 1;
#else
    return (getauxval(AT_HWCAP) & (1ul << 7)) != 0; /* HWCAP_CRC32 */
#endif
}
#endif

static inline uint32_t
crc_three_lanes(uint32_t state, const uint8_t *p, size_t lane, uint32_t table[4][256])
{
    uint64_t first = state, second = 0, third = 0;
    const uint8_t *end = p + lane;
    for (; p < end; p += 8) {
        first = crc_step_8(first, p);
        second = crc_step_8(second, p + lane);
        third = crc_step_8(third, p + 2 * lane);
    }
    uint32_t joined = shift_state(table, (uint32_t)first) ^ (uint32_t)second;
    return shift_state(table, joined) ^ (uint32_t)third;
}

static uint32_t
crc_hardware(uint32_t state, const uint8_t *p, size_t size)
{
    for (; size >= 3 * LONG_LANE; p += 3 * LONG_LANE, size -= 3 * LONG_LANE) {
        state = crc_three_lanes(state, p, LONG_LANE, long_shift_table);
    }
    for (; size >= 3 * SHORT_LANE; p += 3 * SHORT_LANE, size -= 3 * SHORT_LANE) {
        state = crc_three_lanes(state, p, SHORT_LANE, short_shift_table);
    }
    uint64_t wide = state;
    for (; size >= 8; p += 8, size -= 8) {
        wide = crc_step_8(wide, p);
    }
    for (; size > 0; p++, size--) {
        wide = crc_step_1(wide, *p);
    }
    return (uint32_t)wide;
}
#endif /* hardware */

static crc_function crc_update = crc_portable;
static const char *crc_name = "portable";

static void
crc_prepare(void)
{
    for (uint32_t value = 0; value < 256; value++) {
        uint32_t state = value;
        for (int bit = 0; bit < 8; bit++) {
            state = (state & 1u) ? (state >> 1) ^ CRC_POLYNOMIAL : state >> 1;
        }
        slicing_table[0][value] = state;
    }
    for (uint32_t value = 0; value < 256; value++) {
        for (int slice = 1; slice < 8; slice++) {
            uint32_t previous = slicing_table[slice - 1][value];
            slicing_table[slice][value] = (previous >> 8) ^ slicing_table[0][previous & 0xFF];
        }
    }
#if defined(CRC_X86) || defined(CRC_ARM)
    fill_shift_table(long_shift_table, LONG_LANE);
    fill_shift_table(short_shift_table, SHORT_LANE);
    if (crc_hardware_present()) {
        crc_update = crc_hardware;
        crc_name = CRC_NAME;
    }
#endif
}

static inline uint32_t
crc32c(uint32_t value, const uint8_t *data, size_t size)
{
    return ~crc_update(~value, data, size);
}

#endif
