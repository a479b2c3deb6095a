// SPDX-License-Identifier: MIT
// A C program that offers its own functions to Lua. It keeps a stock of goods; the rules that
// decide what to order are Lua, run in processes with a name and a limit, and call the program
// through the module `shop`. Tables go both ways.
#include <mare.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { GOODS = 3 };

struct shop {
    pthread_mutex_t mutex; // processes run on several threads
    struct {
        const char *name;
        int64_t pieces, wanted;
    } goods[GOODS];
};

static const char rules[] = "local shop = require 'shop'\n"
                            "local ordered = {}\n"
                            "for _, good in ipairs(shop.stock()) do\n"
                            "    if good.pieces < good.wanted then\n"
                            "        local pieces = good.wanted - good.pieces\n"
                            "        assert(shop.order {name = good.name, pieces = pieces})\n"
                            "        ordered[good.name] = pieces\n"
                            "    end\n"
                            "end\n"
                            "print(shop.order {name = 'unicorn', pieces = 1})\n"
                            "return ordered\n";

static void check(mare_err err, const char *what)
{
    if (err != MARE_OK) {
        fprintf(stderr, "%s: %s\n", what, mare_strerror(err));
        exit(1);
    }
}

static void add_field(mare_message *message, const char *key, int64_t value)
{
    check(mare_message_add_string(message, key), "key");
    check(mare_message_add_integer(message, value), "value");
}

// stock() -> {{name =, pieces =, wanted =}, ...}
static mare_err stock(void *user, const mare_message *arguments, mare_message *results)
{
    struct shop *shop = user;
    mare_table list, good;
    (void)arguments;
    check(mare_message_open_array(results, &list), "list");
    pthread_mutex_lock(&shop->mutex);
    for (int i = 0; i < GOODS; i++) {
        check(mare_message_open_table(results, &good), "good");
        check(mare_message_add_string(results, "name"), "key");
        check(mare_message_add_string(results, shop->goods[i].name), "name");
        add_field(results, "pieces", shop->goods[i].pieces);
        add_field(results, "wanted", shop->goods[i].wanted);
        check(mare_message_close_table(&good), "good");
    }
    pthread_mutex_unlock(&shop->mutex);
    return mare_message_close_table(&list);
}

// order {name =, pieces =} -> true, or nil, why, code
static mare_err order(void *user, const mare_message *arguments, mare_message *results)
{
    struct shop *shop = user;
    mare_value wish, name, pieces, yes = {.type = MARE_BOOLEAN, .as.boolean = true};
    if (mare_message_get(arguments, 0, &wish) != MARE_OK || wish.type != MARE_TABLE ||
        mare_table_get_field(&wish.as.table, "name", &name) != MARE_OK ||
        mare_table_get_field(&wish.as.table, "pieces", &pieces) != MARE_OK ||
        name.type != MARE_STRING || pieces.type != MARE_INTEGER)
        return MARE_INVALID;
    mare_err err = MARE_NONAME;
    pthread_mutex_lock(&shop->mutex);
    for (int i = 0; i < GOODS; i++) {
        if (strlen(shop->goods[i].name) == name.as.string.length &&
            memcmp(shop->goods[i].name, name.as.string.bytes, name.as.string.length) == 0) {
            shop->goods[i].pieces += pieces.as.integer;
            err = MARE_OK;
        }
    }
    pthread_mutex_unlock(&shop->mutex);
    if (err)
        mare_message_add_string(results, "the shop does not sell that");
    return err ? err : mare_message_add(results, &yes);
}

int main(void)
{
    static const mare_named_function functions[] = {
        {"stock", stock}, {"order", order}, {NULL, NULL}};
    struct shop shop = {PTHREAD_MUTEX_INITIALIZER,
                        {{"apples", 3, 10}, {"bread", 9, 5}, {"cheese", 0, 2}}};
    mare_spawn_options options = {.name = "rules", .memory = 1 << 20};
    mare_runtime *runtime;
    mare_process *process;
    mare_message *result;
    mare_value ordered, key, value;
    char *error;

    check(mare_start(NULL, &runtime), "start");
    check(mare_offer(runtime, "shop", functions, &shop), "offer");
    if (mare_spawn_with(runtime, rules, strlen(rules), "=rules", NULL, &options, &process,
                        &error) != MARE_OK) {
        fprintf(stderr, "spawn: %s\n", error ? error : "no memory");
        return 1;
    }
    check(mare_process_join_until(process, mare_deadline_ms(runtime, 30000), &result), "join");
    check(mare_message_get(result, 0, &ordered), "result");
    check(mare_table_get_field(&ordered.as.table, "cheese", &value), "cheese");
    printf("%lld of cheese\n", (long long)value.as.integer);

    int64_t pieces = 0;
    for (uint64_t at = 0; mare_table_next(&ordered.as.table, &at, &key, &value) == MARE_OK;)
        pieces += value.as.integer;
    printf("%lld in all; now there are %lld apples\n", (long long)pieces,
           (long long)shop.goods[0].pieces);

    mare_message_destroy(result);
    mare_process_unref(process);
    mare_stop(runtime);
    return 0;
}
