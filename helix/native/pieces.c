/* Counts of word pieces in plain ASCII text. A word is cut from its start into the longest known pieces, or is unknown
 * as a whole; a sign is one piece (Devlin et al. 2019, "BERT").
 *
 * The vocabulary is a table of 64-bit hashes (FNV-1a: Fowler, Noll and Vo). A hash grows letter by letter, so those of
 * all prefixes cost no more than that of the word. With 2¹⁵ pieces, one unknown word in 2⁴⁹ matches by accident.
 */
#include <stdint.h>

enum { LETTER = 1, SIGN = 2, SPACE = 4, NAME = 8 }; /* classes of a byte; NAME: a named token may begin */

#define FIRST 14695981039346656037ull /* start of the hash of a piece that begins a word */
#define INNER 0x9e3779b97f4a7c15ull    /* of another piece */

static uint64_t extend_hash(uint64_t hash, uint8_t letter) { return (hash ^ letter) * 1099511628211ull; }

static uint8_t to_lower(uint8_t letter) { return letter >= 'A' && letter <= 'Z' ? letter + 32 : letter; }

/* The place of a hash in the table, or the free place (0) it would take. */
static uint64_t find_place(const uint64_t *table, uint64_t mask, uint64_t hash) {
    uint64_t at = (hash ^ hash >> 32) & mask;
    while (table[at] && table[at] != hash) at = (at + 1) & mask;
    return at;
}

/* Adds n adjacent pieces of text; piece i ends at end[i]. The table has more places than pieces. */
void add_pieces(const uint8_t *text, const int64_t *end, int64_t n, int64_t inner, uint64_t *table, uint64_t mask) {
    for (int64_t i = 0, at = 0; i < n; i++) {
        uint64_t hash = inner ? INNER : FIRST;
        for (; at < end[i]; at++) hash = extend_hash(hash, text[at]);
        table[find_place(table, mask, hash)] = hash;
    }
}

/* The number of pieces of one word; hashes: [longest]. */
static int64_t count_in_word(const uint8_t *word, int64_t n, const uint64_t *table, uint64_t mask, int64_t lower,
                             int64_t longest, uint64_t *hashes) {
    int64_t found = 0;
    for (int64_t at = 0; at < n; found++) {
        int64_t size = n - at < longest ? n - at : longest;
        uint64_t hash = at ? INNER : FIRST;
        for (int64_t i = 0; i < size; i++)
            hashes[i] = hash = extend_hash(hash, lower ? to_lower(word[at + i]) : word[at + i]);
        while (size && !table[find_place(table, mask, hashes[size - 1])]) size--;
        if (!size) return 1;
        at += size;
    }
    return found;
}

/* Whether a named token begins here, in small or capital letters. */
static int64_t begins_name(const uint8_t *text, int64_t n, const uint8_t *name, const int64_t *end, int64_t names) {
    for (int64_t i = 0, at = 0; i < names; at = end[i++]) {
        int64_t size = end[i] - at, same = 0;
        while (same < size && same < n && to_lower(text[same]) == to_lower(name[at + same])) same++;
        if (same == size) return 1;
    }
    return 0;
}

/* tokens[i] = pieces of text i, which ends at end[i]. Chunks between white space that are not plain are not counted:
 * left[3j] = the text, left[3j + 1] and left[3j + 2] = the chunk's begin and end. Returns the number of such chunks;
 * only `room` of them are written.
 */
int64_t count_pieces(const uint8_t *text, const int64_t *end, int64_t n, const uint8_t *kind, const uint8_t *name,
                     const int64_t *name_end, int64_t names, const uint64_t *table, uint64_t mask, int64_t lower,
                     int64_t most, int64_t longest, uint64_t *hashes, int64_t *tokens, int64_t *left,
                     int64_t room) {
    int64_t out = 0, at = 0;
    for (int64_t i = 0; i < n; i++) {
        tokens[i] = 0;
        while (at < end[i]) {
            if (kind[text[at]] & SPACE) {
                at++;
                continue;
            }
            int64_t begin = at, found = 0, plain = 1;
            while (at < end[i] && !(kind[text[at]] & SPACE)) {
                uint8_t is = kind[text[at]];
                int64_t word = at;
                plain &= is != 0 && !(is & NAME && begins_name(text + at, end[i] - at, name, name_end, names));
                if (!(is & LETTER) || !plain) {
                    at++;
                    found++;
                    continue;
                }
                for (; at < end[i] && kind[text[at]] & LETTER; at++)
                    if (at > word && kind[text[at]] & NAME)
                        plain &= !begins_name(text + at, end[i] - at, name, name_end, names);
                int64_t size = at - word;
                found += size > most ? 1 : count_in_word(text + word, size, table, mask, lower, longest, hashes);
            }
            if (plain) {
                tokens[i] += found;
            } else {
                int64_t *chunk = left + 3 * out;
                if (out++ < room) chunk[0] = i, chunk[1] = begin, chunk[2] = at;
            }
        }
    }
    return out;
}
