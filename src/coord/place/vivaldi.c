/* SPDX-License-Identifier: MIT */

/* Vivaldi: coordinates without landmarks, with a memory.
 *
 *     round trip, place of the peer
 *         |
 *     [ filter ] -- low median of the peer's last four
 *         |
 *         +--> nobody knows where it is yet:   a spring, as in the paper
 *         +--> newcomer among settled nodes:   a fit to all that it has measured so far
 *         +--> settled:                        relax against this one and four remembered
 *
 * The springs are those of the paper (Dabek et al. 2004, figure 3 and section 5.4): the step is a
 * fraction of the displacement, larger when the own error is large against the peer's, and the
 * height takes its share. They unfold a network in which nobody knows anything. But they never come
 * to rest, and they pull by milliseconds, so that far peers drown near ones, though what counts is
 * the relative error.
 *
 * So a settled node keeps the last measurement of some peers (filtered, with the place that came
 * with it) and minimises the sum of Huber's loss of the relative errors over them, a stochastic
 * step at a time. The step to a sample of weight w is the part w / (w + n W) of what is missing,
 * where W is the usual weight and n grows from 2 to STEADY with the age: an implicit step that
 * cannot overshoot, and that averages over more and more. A sample that does not fit (a way through
 * the net that breaks the triangle inequality, a spike) pulls with the force of one that is off by
 * ROBUST, however wrong it is: its weight falls. W is the mean of the weights after that. With the
 * weights before it, peers in the same data centre, a thousand times nearer than the others, would
 * make W so large that the others hardly counted. A peer that claims to be CONTRADICTS times as far
 * as it was measured (a liar) pulls less the more it claims.
 *
 * Who is believed: that is relative to the company, the errors that the last peers said they have.
 * Where all round trips are noisy everybody's error is large, and still most of them know where
 * they are. A peer is believed whose error is nearer to the company's median than to 1, which is
 * the error of who knows nothing. Nobody is taken to be surer than the median: while most are lost
 * it is the liars who are sure of themselves. A peer that jumps about between replies is taken to
 * be as wrong as its jumps say. And nobody is believed before the network had time to unfold: until
 * this node has taken UNFOLD steps of a spring, or the company clearly knows more than this node.
 *
 * No constant is a length or a time: what is short is short against the usual round trip. Networks
 * with round trips of 0.1 ms and of 100 ms behave alike, to the bit when the factor is a power of
 * two.
 *
 * A newcomer solves the same problem at once over the few samples that it has, held loosely at the
 * place of the nearest peer that others do not contradict. No sample pulls harder than a part of
 * all others, or one that answers fast would hold a newcomer at whatever place it claims. A node
 * whose estimates have become bad, towards more than one, begins again as a newcomer.
 *
 * Information used: the node's own measurements and the places in the replies. Decisions and
 * figures: docs/decisions/110-vivaldi-with-a-memory.md. */

#include "coord/place/fit.h"

#define UNKNOWN 1.5     /* the error of who knows nothing */
#define TRUSTED 0.5     /* peers with an error below this part of the way from the company's to 1 */
#define LOST 0.5        /* a settled node with more than this part begins again, */
#define DISAGREE 0.33   /* and if what it remembers is wrong by more than this part */
#define UNFOLD 20u      /* steps of a spring until peers that know no more are believed */
#define KNOWS_MORE 0.5  /* an error of so much of the own is that of who knows more */
#define HEARD 15u       /* peers that are the company */
#define SPRING 0.4      /* the part of the displacement that a spring takes at most; paper: c_c */
#define ERROR_PART 0.25 /* of a sample in the moving error; paper: c_e */
#define ROBUST 0.15     /* relative residuals beyond this pull no harder */
#define CONTRADICTS 3.0 /* claims beyond so many times what was measured pull less and less */
#define USUAL_STEP 1.05 /* by which the usual round trip follows the median */
#define NEAR 0.05       /* of the usual round trip: below it they count by their absolute error */
#define SHORT 0.01      /* of the usual round trip: below it two points are near each other */
#define STEADY 80.0     /* samples that a settled node averages over */
#define GROWTH 0.08     /* by how much that grows with an update */
#define HEIGHT_PART 0.5 /* of a step, for the height */
#define HEIGHT_LEAST 1e-4 /* of the usual round trip */
#define NEWCOMER 32u      /* measurements until a node is no newcomer */
#define FIRST_FIT 4u      /* measurements until a newcomer solves for its place */
#define FIT_STEPS 6u      /* with each of them */
#define FIT_HOLD 0.03     /* how strongly a newcomer is held at its nearest peer */
#define FIT_PASSABLE 0.5  /* a beginning that fits so much of what is remembered will do */
#define FIT_CHOICE 1.25   /* else one that fits this many times worse than the best is none */
#define MAJORITY 4u       /* peers, of whom one can be told to be the odd one */
#define PULL_PART 0.25    /* of all other pulls, for a single one */
#define REPLAYED 4u       /* remembered samples a step takes up again */
#define WEIGHT_PART 0.03  /* of a sample in the moving mean of weights */
#define DOUBT_KEPT 0.9    /* of the doubt in a peer, from one measurement of it to the next */
#define FILTER 4u         /* round trips of a peer that are filtered */
#define ABSURD 1e9        /* no coordinate is beyond this */

/* The last round trips of a remembered peer, oldest overwritten first, and how far it has jumped
 * about between replies, against the round trip. */
struct filter {
    double rtt[FILTER];
    double doubt;
    uint32_t count, next;
};

struct mare_coord_vivaldi {
    mare_coord_vivaldi_setup setup;
    mare_coord_place here;
    uint64_t random;
    uint32_t springs; /* steps of a spring since it began */
    uint32_t seen;    /* trusted measurements since it began, up to NEWCOMER */
    uint32_t age;     /* updates since it settled */
    uint32_t count;   /* remembered */
    uint32_t next;    /* to be overwritten when all room is taken */
    uint32_t turns;
    uint32_t weighed;     /* of the remembered, those that count */
    double weight;        /* the moving mean of the weights that samples pulled with; 0: none yet */
    double heard[HEARD];  /* errors of the last peers, in the order of the replies */
    double sorted[HEARD]; /* the same by size */
    uint32_t hears, hears_next; /* how many they are, and which is the oldest of all */
    double company;             /* the median of these errors */
    double usual;               /* round trip, about the median */
    double usual_missing;       /* between estimate and round trip, about the median */
    struct mare__sample *sample;
    struct filter *filter;
    uint64_t *peer;
};

/* Places --------------------------------------------------------------------------------------- */

double mare_coord_place_distance(const mare_coord_place *a, const mare_coord_place *b)
{
    return mare__distance(a->x, b->x, MARE_COORD_DIMENSIONS) + a->height + b->height;
}

/* Written so that what is not a number fails. */
static int within(double x, double low, double high)
{
    return x >= low && x <= high;
}

int mare_coord_place_valid(const mare_coord_place *place)
{
    for (uint32_t i = 0; i < MARE_COORD_DIMENSIONS; i++) {
        if (!within(place->x[i], -ABSURD, ABSURD))
            return 0;
    }
    return within(place->height, 0, ABSURD) && within(place->error, 0, ABSURD);
}

/* Making --------------------------------------------------------------------------------------- */

void mare_coord_vivaldi_setup_init(mare_coord_vivaldi_setup *setup)
{
    *setup = (mare_coord_vivaldi_setup){
        .dimensions = MARE_COORD_DIMENSIONS, .neighbours = 32, .longest = 10000};
}

size_t mare_coord_vivaldi_size(const mare_coord_vivaldi_setup *setup)
{
    if (setup->dimensions < 1 || setup->dimensions > MARE_COORD_DIMENSIONS ||
        setup->neighbours < 8 || setup->neighbours > 1024 || !within(setup->longest, 1e-3, ABSURD))
        return 0;
    return sizeof(mare_coord_vivaldi) +
           setup->neighbours *
               (sizeof(struct mare__sample) + sizeof(struct filter) + sizeof(uint64_t));
}

mare_coord_vivaldi *mare_coord_vivaldi_init(void *memory, size_t size,
                                            const mare_coord_vivaldi_setup *setup)
{
    size_t wanted = mare_coord_vivaldi_size(setup);
    if (wanted == 0 || size < wanted)
        return NULL;
    mare_coord_vivaldi *node = memory;
    *node = (mare_coord_vivaldi){.setup = *setup, .random = setup->seed};
    node->here.error = UNKNOWN;
    node->sample = (struct mare__sample *)(node + 1);
    node->filter = (struct filter *)(node->sample + setup->neighbours);
    node->peer = (uint64_t *)(node->filter + setup->neighbours);
    return node;
}

const mare_coord_place *mare_coord_vivaldi_here(const mare_coord_vivaldi *node)
{
    return &node->here;
}

/* Memory --------------------------------------------------------------------------------------- */

static uint32_t find(const mare_coord_vivaldi *node, uint64_t peer)
{
    uint32_t i = 0;
    while (i < node->count && node->peer[i] != peer)
        i++;
    return i;
}

/* An error is measured against this: the round trip, and a little more for peers that are near. */
static double scale_of(const mare_coord_vivaldi *node, double measured)
{
    return measured + NEAR * node->usual;
}

static double weight_of(const mare_coord_vivaldi *node, double measured)
{
    double scale = scale_of(node, measured);
    return 1 / (scale * scale);
}

/* Weighs the remembered samples so that none pulls harder than a part of all others together: a
 * relative error to somebody near is a short way, and who answers fast, from a place that is not
 * its own, would outweigh a handful of honest peers that are far. */
static void balance(mare_coord_vivaldi *node)
{
    double sum = 0, most = 0;
    node->weighed = 0;
    for (uint32_t i = 0; i < node->count; i++) {
        struct mare__sample *s = &node->sample[i];
        if (s->weight > 0) {
            node->weighed++;
            s->weight = weight_of(node, s->measured);
            double pull = s->weight * s->measured;
            sum += pull;
            most = pull > most ? pull : most;
        }
    }
    double bound = node->weighed < MAJORITY ? most : (sum - most) * PULL_PART;
    for (uint32_t i = 0; i < node->count; i++) {
        struct mare__sample *s = &node->sample[i];
        if (most > bound && s->weight * s->measured > bound)
            s->weight = bound / s->measured;
    }
}

/* A slot for a peer: that of the oldest when all are taken. */
static uint32_t new_slot(mare_coord_vivaldi *node, uint64_t peer)
{
    uint32_t slot;
    if (node->count < node->setup.neighbours) {
        slot = node->count++;
    } else {
        slot = node->next;
        node->next = (slot + 1) % node->setup.neighbours;
    }
    node->peer[slot] = peer;
    node->filter[slot] = (struct filter){0};
    return slot;
}

/* The second smallest of up to four, the smaller of two: queues only ever add to a round trip. */
static double filtered(struct filter *filter, double rtt)
{
    double least = rtt, second = 0;
    filter->rtt[filter->next] = rtt;
    filter->next = (filter->next + 1) % FILTER;
    filter->count += filter->count < FILTER;
    for (uint32_t i = 0; i < filter->count; i++)
        least = filter->rtt[i] < least ? filter->rtt[i] : least;
    if (filter->count < 3)
        return least;
    int passed = 0; /* the least itself is counted once */
    for (uint32_t i = 0; i < filter->count; i++) {
        if (!passed && filter->rtt[i] <= least)
            passed = 1;
        else
            second = second > 0 && second < filter->rtt[i] ? second : filter->rtt[i];
    }
    return second;
}

/* A peer that says it is sure of its place and is somewhere else each time is not believed: the
 * error that it is taken to have, its own figure or what its jumps say. */
static double believed(mare_coord_vivaldi *node, uint32_t slot, const mare_coord_place *there,
                       double rtt)
{
    if (slot == node->count)
        return there->error;
    struct filter *filter = &node->filter[slot];
    double jump = mare__distance(node->sample[slot].x, there->x, node->setup.dimensions);
    double doubt = jump / scale_of(node, rtt);
    filter->doubt *= DOUBT_KEPT;
    filter->doubt = doubt > filter->doubt ? doubt : filter->doubt;
    return filter->doubt > there->error ? filter->doubt : there->error;
}

/* Hears the error of one more of the company, in place of the oldest. Returns the median. */
static double hear(mare_coord_vivaldi *node, double error)
{
    double *sorted = node->sorted, *oldest = &node->heard[node->hears_next];
    uint32_t at = 0;
    if (node->hears < HEARD)
        at = node->hears++;
    else
        while (sorted[at] != *oldest)
            at++;
    node->hears_next = (node->hears_next + 1) % HEARD;
    *oldest = error < UNKNOWN ? error : UNKNOWN;
    for (; at > 0 && sorted[at - 1] > *oldest; at--)
        sorted[at] = sorted[at - 1];
    for (; at + 1 < node->hears && sorted[at + 1] < *oldest; at++)
        sorted[at] = sorted[at + 1];
    sorted[at] = *oldest;
    return node->company = sorted[node->hears / 2];
}

/* So much of the way from the company's error to that of who knows nothing. */
static double beyond_company(const mare_coord_vivaldi *node, double part)
{
    return node->company + part * (1 - node->company);
}

/* Whether a peer knows where it is, as far as that can be known here. */
static int trusts(const mare_coord_vivaldi *node, double theirs)
{
    int unfolded = node->springs >= UNFOLD || node->company <= KNOWS_MORE * node->here.error;
    return unfolded && node->company < 1 && theirs <= beyond_company(node, TRUSTED);
}

/* Takes a measurement into a slot; one of a peer that is not believed has no weight. */
static void remember(mare_coord_vivaldi *node, uint32_t slot, const mare_coord_place *there,
                     double rtt, int counts)
{
    struct mare__sample *s = &node->sample[slot];
    for (uint32_t i = 0; i < MARE_COORD_DIMENSIONS; i++)
        s->x[i] = i < node->setup.dimensions ? there->x[i] : 0;
    s->height = there->height;
    s->measured = filtered(&node->filter[slot], rtt);
    s->weight = counts ? weight_of(node, s->measured) : 0;
    balance(node);
}

void mare_coord_vivaldi_forget(mare_coord_vivaldi *node, uint64_t peer)
{
    uint32_t slot = find(node, peer);
    if (slot == node->count)
        return;
    uint32_t last = --node->count;
    node->sample[slot] = node->sample[last];
    node->filter[slot] = node->filter[last];
    node->peer[slot] = node->peer[last];
    node->next = 0;
    balance(node);
}

/* Moving --------------------------------------------------------------------------------------- */

static double clamp(double x, double low, double high)
{
    return x < low ? low : x > high ? high : x;
}

/* No step leads to where nobody can be: others would refuse the place. */
static void move(mare_coord_vivaldi *node, const double *from, double distance, double by,
                 double height)
{
    double way[MARE_COORD_DIMENSIONS], length = distance;
    uint32_t n = node->setup.dimensions;
    for (uint32_t i = 0; i < n; i++)
        way[i] = node->here.x[i] - from[i];
    if (distance <= 1e-9 * node->usual) { /* on one point: any direction will do */
        length = 0;
        for (uint32_t i = 0; i < n; i++) {
            way[i] = mare__place_uniform(&node->random);
            length += way[i] * way[i];
        }
        length = mare__square_root(length);
    }
    by /= length;
    for (uint32_t i = 0; i < n; i++)
        node->here.x[i] = clamp(node->here.x[i] + by * way[i], -ABSURD, ABSURD);
    node->here.height = clamp(node->here.height + height, HEIGHT_LEAST * node->usual, ABSURD);
}

/* What a spring may pull by: not much more than what is usually missing, against spikes, and not
 * much more than what was measured, against liars. Follows the median in steps of a tenth. */
static double bounded(mare_coord_vivaldi *node, double missing, double rtt)
{
    double size = missing < 0 ? -missing : missing;
    if (node->usual_missing <= 0)
        node->usual_missing = size;
    double most = 2 * (node->usual_missing < rtt ? node->usual_missing : rtt);
    node->usual_missing *= size > node->usual_missing ? 1.1 : 1 / 1.1;
    return missing > most ? most : missing < -most ? -most : missing;
}

/* The paper's step. */
static void spring(mare_coord_vivaldi *node, const mare_coord_place *there, double rtt,
                   double trust)
{
    double distance = mare__distance(node->here.x, there->x, node->setup.dimensions);
    double missing = rtt - distance - node->here.height - there->height;
    double force = SPRING * trust * bounded(node, missing, rtt);
    double least = SHORT * node->usual, flat = distance > least ? distance : least;
    double share = (node->here.height + there->height) / flat;
    move(node, there->x, distance, force, force * (share < 1 ? share : 1));
}

static void relax(mare_coord_vivaldi *node, const struct mare__sample *s)
{
    if (s->weight <= 0)
        return;
    double distance = mare__distance(node->here.x, s->x, node->setup.dimensions);
    double missing = s->measured - distance - node->here.height - s->height;
    double wrong = missing < 0 ? -missing : missing, edge = ROBUST * s->measured;
    double weight = wrong <= edge ? s->weight : s->weight * edge / wrong;
    double claim = -missing / (CONTRADICTS * scale_of(node, s->measured));
    if (claim > 1)
        weight /= claim;
    if (node->weight <= 0)
        node->weight = weight;
    double over = 2 + GROWTH * node->age;
    over = over < STEADY ? over : STEADY;
    double step = missing * weight / (weight + over * node->weight);
    node->weight += WEIGHT_PART * (weight - node->weight);
    move(node, s->x, distance, step, step * HEIGHT_PART);
}

static double middle_height(const mare_coord_vivaldi *node)
{
    double sum = 0;
    for (uint32_t i = 0; i < node->count; i++)
        sum += node->sample[i].height;
    return sum / node->count;
}

/* How badly a place fits what is remembered. However wrong a sample is, it counts for one: what
 * many agree about is better than what suits a single one perfectly. */
static double misfit(const mare_coord_vivaldi *node, const double *x, double height)
{
    double sum = 0;
    for (uint32_t i = 0; i < node->count; i++) {
        const struct mare__sample *s = &node->sample[i];
        double wrong = mare__distance(x, s->x, node->setup.dimensions) + height + s->height;
        wrong = (wrong - s->measured) / scale_of(node, s->measured);
        wrong = wrong < 0 ? -wrong : wrong;
        sum += s->weight > 0 ? (wrong < 1 ? wrong : 1) : 0;
    }
    return sum;
}

/* The height of a newcomer that begins at a peer. */
static double height_at(const struct mare__sample *peer, double middle)
{
    return middle < peer->measured / 2 ? middle : peer->measured / 2;
}

/* Where a newcomer begins: the nearest peer whose place suits half of them, or is about as good as
 * that of any. One of the remembered counts when this is called. */
static const struct mare__sample *beginning(const mare_coord_vivaldi *node, double middle,
                                            double *fits)
{
    const struct mare__sample *chosen = NULL;
    double least = -1, passable = FIT_PASSABLE * node->weighed;
    *fits = 0;
    for (uint32_t i = 0; i < node->count; i++) {
        const struct mare__sample *s = &node->sample[i];
        if (s->weight <= 0)
            continue;
        double badly = misfit(node, s->x, height_at(s, middle));
        least = least < 0 || badly < least ? badly : least;
    }
    for (uint32_t i = 0; i < node->count; i++) {
        const struct mare__sample *s = &node->sample[i];
        if (s->weight <= 0 || (chosen && s->measured >= chosen->measured))
            continue;
        double badly = misfit(node, s->x, height_at(s, middle));
        if (badly <= passable || badly <= FIT_CHOICE * least) {
            chosen = s;
            *fits = badly;
        }
    }
    return chosen;
}

/* A newcomer: from a peer if it is nowhere yet or fits worse than that, else from where it is. */
static void fit(mare_coord_vivaldi *node)
{
    struct mare__fit_end end;
    struct mare__fit fit = {.sample = node->sample,
                            .count = node->count,
                            .dimensions = node->setup.dimensions,
                            .with_height = 1,
                            .least = HEIGHT_LEAST * node->usual,
                            .robust = ROBUST,
                            .steps = FIT_STEPS,
                            .tolerance = 1e-5 * node->usual};
    double middle = middle_height(node), fits;
    const struct mare__sample *from = beginning(node, middle, &fits);
    for (uint32_t i = 0; i < fit.dimensions; i++)
        fit.at.x[i] = from->x[i];
    fit.at.height = height_at(from, middle);
    fit.hold = FIT_HOLD * weight_of(node, from->measured);
    double height = fit.at.height + SHORT * node->usual;
    fit.hold_height = 4 * FIT_HOLD / (height * height);
    double now = misfit(node, node->here.x, node->here.height);
    if (node->seen == FIRST_FIT || (now > FIT_PASSABLE * node->weighed && now > fits)) {
        for (uint32_t i = 0; i < fit.dimensions; i++)
            node->here.x[i] =
                from->x[i] + 0.1 * from->measured * mare__place_uniform(&node->random);
        node->here.height = fit.at.height;
    }
    mare__fit_run(&fit, &node->here, &end);
    for (uint32_t i = 0; i < fit.dimensions; i++)
        node->here.x[i] = clamp(node->here.x[i], -ABSURD, ABSURD);
    node->here.height = clamp(node->here.height, HEIGHT_LEAST * node->usual, ABSURD);
}

/* The moving relative error, weighted as in the paper. Returns the weight. */
static double judge(mare_coord_vivaldi *node, const mare_coord_place *there, double rtt,
                    double theirs)
{
    double mine = node->here.error;
    theirs = theirs < UNKNOWN ? theirs : UNKNOWN;
    double trust = mine / (mine + theirs);
    double wrong = (mare_coord_place_distance(&node->here, there) - rtt) / rtt;
    wrong = wrong < 0 ? -wrong : wrong;
    wrong = wrong < 1 ? wrong : 1;
    node->here.error += ERROR_PART * trust * (wrong - mine);
    return trust;
}

/* A place with coordinates that this space does not have is one of another network. */
static int in_space(const mare_coord_vivaldi *node, const mare_coord_place *there)
{
    for (uint32_t i = node->setup.dimensions; i < MARE_COORD_DIMENSIONS; i++) {
        if (there->x[i] != 0)
            return 0;
    }
    return 1;
}

/* A single peer that is probed often can make the moving error large. It takes more to be lost. */
static int most_disagree(const mare_coord_vivaldi *node)
{
    return misfit(node, node->here.x, node->here.height) >
           beyond_company(node, DISAGREE) * node->weighed;
}

static void begin_again(mare_coord_vivaldi *node)
{
    node->count = node->next = node->seen = node->age = node->weighed = node->springs = 0;
    node->weight = 0;
    node->here.error = UNKNOWN;
}

mare_coord_status mare_coord_vivaldi_update(mare_coord_vivaldi *node, uint64_t peer,
                                            const mare_coord_place *there, double rtt)
{
    if (!(rtt > 0) || !(rtt <= node->setup.longest))
        return MARE_COORD_REFUSED;
    if (!mare_coord_place_valid(there) || !in_space(node, there))
        return MARE_COORD_MALFORMED;
    if (node->usual <= 0)
        node->usual = rtt;
    node->usual *= rtt > node->usual ? USUAL_STEP : 1 / USUAL_STEP;
    uint32_t slot = find(node, peer);
    double theirs = believed(node, slot, there, rtt), company = hear(node, theirs);
    theirs = theirs > company ? theirs : company;
    int trusted = trusts(node, theirs);
    double trust = judge(node, there, rtt, theirs);
    if (slot == node->count && trusted)
        slot = new_slot(node, peer);
    if (slot < node->count)
        remember(node, slot, there, rtt, trusted);
    if (!trusted) {
        node->springs += node->springs < UNFOLD;
        spring(node, there, rtt, trust);
        return MARE_COORD_OK;
    }
    node->seen += node->seen < NEWCOMER;
    if (node->seen < FIRST_FIT || (node->seen < NEWCOMER && node->weighed < MAJORITY)) {
        spring(node, there, rtt, trust);
    } else if (node->seen < NEWCOMER) {
        fit(node);
    } else {
        node->age++;
        relax(node, &node->sample[slot]);
        for (uint32_t i = 0; i < REPLAYED; i++)
            relax(node, &node->sample[mare__place_random(&node->random) % node->count]);
        if (node->here.error > beyond_company(node, LOST) && most_disagree(node))
            begin_again(node);
    }
    return MARE_COORD_OK;
}

uint32_t mare_coord_vivaldi_choose(mare_coord_vivaldi *node, const uint64_t *peers, uint32_t count)
{
    uint32_t best = (uint32_t)(mare__place_random(&node->random) % (count ? count : 1));
    double least = 0;
    if (count == 0)
        return MARE_COORD_NOBODY;
    if (node->turns++ % 2 == 0 || node->count == 0)
        return best;
    /* The nearest of a few drawn at random: near, and not always the same. */
    for (uint32_t draw = 0; draw < 4; draw++) {
        uint32_t i = (uint32_t)(mare__place_random(&node->random) % count);
        uint32_t slot = find(node, peers[i]);
        double measured = slot < node->count ? node->sample[slot].measured : node->setup.longest;
        if (draw == 0 || measured < least) {
            best = i;
            least = measured;
        }
    }
    return best;
}
