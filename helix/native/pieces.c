/* How many word pieces plain ASCII text has: each word is cut into the longest pieces there are, from its start, or is
 * unknown as a whole; each sign is one (Devlin et al. 2019, "BERT").
 *
 * The vocabulary is a table of 64-bit hashes (FNV-1a: Fowler, Noll and Vo), which grow letter by letter: those of all
 * starts of a word cost as much as that of the word. Of 2¹⁵ pieces, a word that is none is taken for one once in 2⁴⁹.
 */
#include <stdint.h>

enum { LETTER = 1, SIGN = 2, SPACE = 4, NAME = 8 }; /* what a byte is; NAME: the tokens with a name begin so, too */

#define FIRST 14695981039346656037ull /* of a piece a word begins with */
#define INNER 0x9e3779b97f4a7c15ull    /* of any other */

static uint64_t grown(uint64_t hash, uint8_t letter) { return (hash ^ letter) * 1099511628211ull; }

static uint8_t small(uint8_t letter) { return letter >= 'A' && letter <= 'Z' ? letter + 32 : letter; }

/* Where a hash is in the table, or the free place (0) it would take. */
static uint64_t place(const uint64_t *table, uint64_t mask, uint64_t hash) {
    uint64_t at = (hash ^ hash >> 32) & mask;
    while (table[at] && table[at] != hash) at = (at + 1) & mask;
    return at;
}

/* Adds n pieces, which lie one after the other and end where `end` says. The table has room for more than all. */
void add_pieces(const uint8_t *text, const int64_t *end, int64_t n, int64_t inner, uint64_t *table, uint64_t mask) {
    for (int64_t i = 0, at = 0; i < n; i++) {
        uint64_t hash = inner ? INNER : FIRST;
        for (; at < end[i]; at++) hash = grown(hash, text[at]);
        table[place(table, mask, hash)] = hash;
    }
}

/* Pieces of one word; `hashes` has room for the longest one. */
static int64_t pieces(const uint8_t *word, int64_t n, const uint64_t *table, uint64_t mask, int64_t lower,
                      int64_t longest, uint64_t *hashes) {
    int64_t found = 0;
    for (int64_t at = 0; at < n; found++) {
        int64_t size = n - at < longest ? n - at : longest;
        uint64_t hash = at ? INNER : FIRST;
        for (int64_t i = 0; i < size; i++) hashes[i] = hash = grown(hash, lower ? small(word[at + i]) : word[at + i]);
        while (size && !table[place(table, mask, hashes[size - 1])]) size--;
        if (!size) return 1;
        at += size;
    }
    return found;
}

/* Whether one of the tokens with a name stands here, in small or capital letters. */
static int64_t named(const uint8_t *text, int64_t n, const uint8_t *name, const int64_t *end, int64_t names) {
    for (int64_t i = 0, at = 0; i < names; at = end[i++]) {
        int64_t size = end[i] - at, same = 0;
        while (same < size && same < n && small(text[same]) == small(name[at + same])) same++;
        if (same == size) return 1;
    }
    return 0;
}

/* tokens[i] = pieces of text i, which ends at end[i]. What stands between white space and is not plain is left out:
 * left[3j] = its text, left[3j + 1] and left[3j + 2] = where it begins and ends. Returns how many there are;
 * no more than there is room for are told.
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
                plain &= is != 0 && !(is & NAME && named(text + at, end[i] - at, name, name_end, names));
                if (!(is & LETTER) || !plain) {
                    at++;
                    found++;
                    continue;
                }
                for (; at < end[i] && kind[text[at]] & LETTER; at++)
                    if (at > word && kind[text[at]] & NAME)
                        plain &= !named(text + at, end[i] - at, name, name_end, names);
                found += at - word > most ? 1 : pieces(text + word, at - word, table, mask, lower, longest, hashes);
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
