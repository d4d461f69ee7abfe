/* The typed graph of a store around a few nodes: over several segments, without rows that a question may not see.
 * helix/snapshot/index/graph.py says what the nodes and edges are and fills the structs.
 *
 * Node numbers: rows, then session codes, then entities by their place in the first segment that has them.
 */
#include <math.h>
#include <stddef.h>
#include <stdint.h>

typedef struct {
    int64_t start, rows, entities, first_entity, namings, mentions, sessions, members, links, linked, ids;
    const int64_t *mention_at;  /* row -> its entities */
    const uint64_t *mention;
    const uint64_t *entity;     /* ascending -> the rows that name it, and the number of live ones */
    const int64_t *naming_at;
    const uint32_t *naming;
    const int32_t *named;
    const uint64_t *session;    /* ascending -> its rows */
    const int64_t *member_at;
    const uint32_t *member;
    const int64_t *link_at;     /* row -> linked items */
    const uint64_t *link;
    const uint8_t *link_kind;
    const uint64_t *linked_key; /* ascending -> rows linked with it */
    const uint32_t *linked_row;
    const uint8_t *linked_kind;
    const uint64_t *id;         /* ascending -> row */
    const uint32_t *id_row;
} segment;

typedef struct {
    int64_t segments, rows, sessions, entities, live, facts;
    const segment *segment;
    const int32_t *previous, *next, *session; /* by row */
    const uint8_t *alive;
    const uint64_t *key;                      /* the item's id */
    const uint64_t *session_key;
    const int64_t *session_size;
    const uint64_t *fact_one;                 /* ascending; of one entity the surest fact first */
    const uint64_t *fact_other;
    const float *fact_confidence;
    const int64_t *fact_row;
} graph;

typedef struct {
    int64_t entity_df, session_size, facts, asked, hubs;
    double next, session, fact, link[2];
    const uint8_t *allowed;    /* by row; null: all */
    const uint64_t *asked_key; /* entities of the question */
    const int64_t *hub;        /* hubs among them, once for each linked item */
    const int64_t *hub_row;
    const double *hub_weight;
} question;

typedef struct {
    int64_t *source, *target;
    double *weight;
    int64_t most, count;
} edges;

static int64_t lower(const uint64_t *keys, int64_t n, uint64_t key) {
    int64_t low = 0;
    while (n > 0) {
        int64_t half = n / 2;
        if (keys[low + half] < key) low += half + 1, n -= half + 1;
        else n = half;
    }
    return low;
}

static int64_t find_key(const uint64_t *keys, int64_t n, uint64_t key) {
    int64_t at = lower(keys, n, key);
    return at < n && keys[at] == key ? at : -1;
}

/* Whether the entries at[i] to at[i + 1] are within n. */
static int is_within(const int64_t *at, int64_t i, int64_t n) {
    return at[i] >= 0 && at[i] <= at[i + 1] && at[i + 1] <= n;
}

static void add_edge(edges *out, int64_t source, int64_t target, double weight) {
    if (out->count < out->most) {
        out->source[out->count] = source;
        out->target[out->count] = target;
        out->weight[out->count] = weight;
    }
    out->count++;
}

/* Whether a question may see a row; false outside the rows. */
static int is_seen(const graph *g, const question *q, int64_t row) {
    return row >= 0 && row < g->rows && g->alive[row] && (!q->allowed || q->allowed[row]);
}

static double compute_idf(const graph *g, int64_t df) { return log1p((double)g->live / (double)(df > 0 ? df : 1)); }

/* The node of an entity, -1 if no item names it; *df: the number of live items that do. */
static int64_t find_entity(const graph *g, uint64_t key, int64_t *df) {
    int64_t node = -1;
    *df = 0;
    for (int64_t s = 0; s < g->segments; s++) {
        const segment *part = g->segment + s;
        int64_t at = find_key(part->entity, part->entities, key);
        if (at < 0) continue;
        if (node < 0) node = g->rows + g->sessions + part->first_entity + at;
        *df += part->named[at];
    }
    return node;
}

static int64_t find_segment(const graph *g, int64_t row) {
    int64_t s = 0;
    while (s + 1 < g->segments && g->segment[s + 1].start <= row) s++;
    return s;
}

static uint64_t read_entity_key(const graph *g, int64_t node) {
    int64_t at = node - g->rows - g->sessions, s = 0;
    while (s + 1 < g->segments && g->segment[s + 1].first_entity <= at) s++;
    return g->segment[s].entity[at - g->segment[s].first_entity];
}

/* The live row of an item's id, or -1. */
static int64_t find_row(const graph *g, uint64_t id) {
    int64_t found = -1;
    for (int64_t s = 0; s < g->segments; s++) {
        const segment *part = g->segment + s;
        int64_t at = find_key(part->id, part->ids, id);
        if (at < 0 || part->id_row[at] >= part->rows) continue;
        int64_t row = part->start + part->id_row[at];
        if (g->alive[row]) found = row;
    }
    return found;
}

/* Whether an entity is a node: it joins items and is no hub, or the question names it. */
static int is_node(const question *q, uint64_t key, int64_t df) {
    return (df >= 2 && df <= q->entity_df) || find_key(q->asked_key, q->asked, key) >= 0;
}

static int64_t count_facts(const graph *g, uint64_t key) {
    int64_t low = lower(g->fact_one, g->facts, key), high = low;
    while (high < g->facts && g->fact_one[high] == key) high++;
    return high - low;
}

/* ------------------------------------------------------------------ edges of one node; 0, or -1 for a damaged list */

static int read_item_edges(const graph *g, const question *q, int64_t i, int64_t row, edges *out) {
    const segment *part = g->segment + find_segment(g, row);
    int64_t local = row - part->start, df;
    if (!is_within(part->mention_at, local, part->mentions) || !is_within(part->link_at, local, part->links)) return -1;
    for (int64_t j = part->mention_at[local]; j < part->mention_at[local + 1]; j++) {
        int64_t node = find_entity(g, part->mention[j], &df);
        if (node >= 0 && df <= q->entity_df && is_node(q, part->mention[j], df))
            add_edge(out, i, node, compute_idf(g, df));
    }
    int64_t neighbour[2] = {g->previous[row], g->next[row]};
    for (int j = 0; j < 2; j++)
        if (is_seen(g, q, neighbour[j])) add_edge(out, i, neighbour[j], q->next);
    for (int64_t j = part->link_at[local]; j < part->link_at[local + 1]; j++) {
        int64_t other = find_row(g, part->link[j]);
        if (part->link_kind[j] > 1) return -1;
        if (other >= 0 && is_seen(g, q, other)) add_edge(out, i, other, q->link[part->link_kind[j]]);
    }
    for (int64_t s = 0; s < g->segments; s++) {
        const segment *from = g->segment + s;
        int64_t j = lower(from->linked_key, from->linked, g->key[row]);
        for (; j < from->linked && from->linked_key[j] == g->key[row]; j++) {
            if (from->linked_row[j] >= from->rows || from->linked_kind[j] > 1) return -1;
            int64_t other = from->start + from->linked_row[j];
            if (is_seen(g, q, other)) add_edge(out, i, other, q->link[from->linked_kind[j]]);
        }
    }
    if (g->session[row] < 0 || g->session[row] >= g->sessions) return -1;
    int64_t size = g->session_size[g->session[row]];
    if (size >= 2 && size <= q->session_size) add_edge(out, i, g->rows + g->session[row], q->session);
    for (int64_t j = 0; j < q->hubs; j++)
        if (q->hub_row[j] == row) add_edge(out, i, q->hub[j], q->hub_weight[j]);
    return 0;
}

static int read_session_edges(const graph *g, const question *q, int64_t i, int64_t code, edges *out) {
    for (int64_t s = 0; s < g->segments; s++) {
        const segment *part = g->segment + s;
        int64_t at = find_key(part->session, part->sessions, g->session_key[code]);
        if (at < 0) continue;
        if (!is_within(part->member_at, at, part->members)) return -1;
        for (int64_t j = part->member_at[at]; j < part->member_at[at + 1]; j++) {
            if (part->member[j] >= part->rows) return -1;
            int64_t row = part->start + part->member[j];
            if (is_seen(g, q, row)) add_edge(out, i, row, q->session);
        }
    }
    return 0;
}

static int read_entity_edges(const graph *g, const question *q, int64_t i, int64_t node, edges *out) {
    uint64_t key = read_entity_key(g, node);
    int64_t df, other_df, read = 0;
    find_entity(g, key, &df);
    for (int64_t s = 0; s < g->segments && df <= q->entity_df; s++) {
        const segment *part = g->segment + s;
        int64_t at = find_key(part->entity, part->entities, key);
        if (at < 0) continue;
        if (!is_within(part->naming_at, at, part->namings)) return -1;
        for (int64_t j = part->naming_at[at]; j < part->naming_at[at + 1]; j++) {
            if (part->naming[j] >= part->rows) return -1;
            int64_t row = part->start + part->naming[j];
            if (is_seen(g, q, row)) add_edge(out, i, row, compute_idf(g, df));
        }
    }
    for (int64_t j = 0; j < q->hubs; j++)
        if (q->hub[j] == node) add_edge(out, i, q->hub_row[j], q->hub_weight[j]);
    for (int64_t j = lower(g->fact_one, g->facts, key); j < g->facts && g->fact_one[j] == key && read < q->facts; j++) {
        if (!is_seen(g, q, g->fact_row[j])) continue;
        read++;
        int64_t other = find_entity(g, g->fact_other[j], &other_df);
        if (other >= 0 && g->fact_other[j] != key && is_node(q, g->fact_other[j], other_df))
            add_edge(out, i, other, q->fact * (double)g->fact_confidence[j]);
    }
    return 0;
}

/* ------------------------------------------------------------------ called from Python */

/* node[i] and df[i] of n entities. */
void graph_find(const graph *g, const uint64_t *keys, int64_t n, int64_t *node, int64_t *df) {
    for (int64_t i = 0; i < n; i++) node[i] = find_entity(g, keys[i], df + i);
}

/* The number of edges to read for each of n nodes. An item has two neighbours and a session as well as its entities;
 * its few links are not counted. Returns -1 for a damaged list or a number that is no node.
 */
int64_t graph_degrees(const graph *g, const question *q, const int64_t *nodes, int64_t n, int64_t *out) {
    for (int64_t i = 0; i < n; i++) {
        int64_t node = nodes[i], df;
        if (node < 0 || node >= g->rows + g->sessions + g->entities) return -1;
        if (node < g->rows) {
            const segment *part = g->segment + find_segment(g, node);
            int64_t local = node - part->start;
            if (!is_within(part->mention_at, local, part->mentions)) return -1;
            out[i] = part->mention_at[local + 1] - part->mention_at[local] + 3;
        } else if (node < g->rows + g->sessions) {
            out[i] = g->session_size[node - g->rows];
        } else {
            uint64_t key = read_entity_key(g, node);
            find_entity(g, key, &df);
            if (df > q->entity_df)
                for (int64_t j = df = 0; j < q->hubs; j++) df += q->hub[j] == node;
            int64_t facts = count_facts(g, key);
            out[i] = df + (facts < q->facts ? facts : q->facts);
        }
    }
    return 0;
}

/* All edges of n nodes: (position among the nodes, target node, weight). Writes the first `most`; returns the number of
 * all, or -1 for a damaged list or a number that is no node.
 */
int64_t graph_edges(const graph *g, const question *q, const int64_t *nodes, int64_t n,
                    int64_t *source, int64_t *target, double *weight, int64_t most) {
    edges out = {source, target, weight, most, 0};
    for (int64_t i = 0; i < n; i++) {
        int64_t node = nodes[i];
        int failed;
        if (node < 0 || node >= g->rows + g->sessions + g->entities) return -1;
        if (node < g->rows) failed = read_item_edges(g, q, i, node, &out);
        else if (node < g->rows + g->sessions) failed = read_session_edges(g, q, i, node - g->rows, &out);
        else failed = read_entity_edges(g, q, i, node, &out);
        if (failed) return -1;
    }
    return out.count;
}
