/* Stores and reads several keys at once, lets one expire, and iterates over all records. */

#include <stdio.h>
#include <stdlib.h>

#include <stonecast.h>

#define COUNT 3

static stonecast_error *error;

/* Ends the program unless `status` is an outcome. */
static stonecast_status expect(stonecast_status status) {
    if (status >= STONECAST_ERRORS) {
        fprintf(stderr, "%s\n", stonecast_error_message(error));
        stonecast_error_free(error);
        exit(EXIT_FAILURE);
    }
    return status;
}

static void print(stonecast_bytes bytes) {
    fwrite(bytes.data, 1, bytes.size, stdout);
}

int main(int argc, char **argv) {
    const char *url = argc > 1 ? argv[1] : "shm:./stonecast-data/socket";
    static const stonecast_bytes keys[COUNT] = {{"ada", 3}, {"bob", 3}, {"eve", 3}};
    static const stonecast_bytes ages[COUNT] = {{"36", 2}, {"41", 2}, {"29", 2}};
    stonecast_client *client;
    expect(stonecast_connect(url, NULL, &client, &error));

    /* Each pair is a write of its own, with an outcome of its own. */
    stonecast_outcomes *outcomes;
    if (expect(stonecast_multi_put(client, keys, ages, COUNT, &outcomes, &error)) == STONECAST_STATUS_PARTLY) {
        for (size_t i = 0; i < stonecast_outcomes_count(outcomes); i++) {
            const stonecast_error *failed = stonecast_outcomes_error(outcomes, i);
            if (failed != NULL) {
                fprintf(stderr, "pair %zu: %s\n", i, stonecast_error_message(failed));
            }
        }
    }
    stonecast_outcomes_free(outcomes);

    /* Eve leaves in an hour, unless she was changed meanwhile. */
    stonecast_value *eve;
    stonecast_write *leaving = stonecast_write_new();
    expect(stonecast_get(client, "eve", 3, &eve, &error));
    stonecast_write_expires_in(leaving, 60 * 60 * 1000);
    stonecast_write_if_version(leaving, stonecast_value_version(eve));
    expect(stonecast_touch(client, "eve", 3, leaving, NULL, &error));
    stonecast_write_free(leaving);
    stonecast_value_free(eve);

    stonecast_values *values;
    expect(stonecast_multi_get(client, keys, COUNT, &values, &error));
    for (size_t i = 0; i < stonecast_values_count(values); i++) {
        const stonecast_value *value = stonecast_values_at(values, i);
        if (value != NULL) {
            print(keys[i]);
            printf(" is ");
            print(stonecast_value_bytes(value));
            printf(stonecast_value_expires_at(value) != 0 ? ", and leaves\n" : "\n");
        }
    }
    stonecast_values_free(values);

    stonecast_iteration *all;
    const stonecast_record *record;
    expect(stonecast_entries(client, &all, &error));
    while (expect(stonecast_entries_next(all, &record, &error)) == STONECAST_STATUS_OK) {
        print(stonecast_record_key(record));
        printf("\n");
    }
    stonecast_entries_close(all);

    stonecast_statistics statistics;
    expect(stonecast_stat(client, &statistics, sizeof statistics, &error));
    printf("keys: %llu\n", (unsigned long long)statistics.keys);
    stonecast_close(client);
    return EXIT_SUCCESS;
}
