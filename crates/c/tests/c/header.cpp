// The header in C++.

#include <stonecast.h>

int main() {
    stonecast_client *client = nullptr;
    stonecast_error *error = nullptr;
    const stonecast_status status = stonecast_connect("nowhere", nullptr, &client, &error);
    const bool is_refused = status == STONECAST_STATUS_ADDRESS && stonecast_error_effect(error) == STONECAST_EFFECT_NONE;
    stonecast_error_free(error);
    return is_refused ? 0 : 1;
}
