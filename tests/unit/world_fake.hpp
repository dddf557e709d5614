// What the tests of the fake world share: messages of one number, and waiting for one.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <span>
#include <string>

#include "world/world.hpp"

namespace rhizome::world {

/// The number must stay in place until the ticket has ended.
inline Ticket send(World& world, WorkerId to, std::int32_t tag, const std::int32_t& value) {
    return world.send(to, Tag{tag}, std::as_bytes(std::span{&value, 1}));
}

inline Ticket receive(World& world, WorkerId from, std::int32_t tag, std::int32_t& value) {
    return world.receive(from, Tag{tag}, std::as_writable_bytes(std::span{&value, 1}));
}

inline CommStatus wait(World& world, Ticket ticket, Nanoseconds deadline) {
    return wait_all(world, {&ticket, 1}, deadline);
}

inline std::string message_of(const std::exception_ptr& error) {
    try {
        std::rethrow_exception(error);
    } catch (const std::exception& exception) {
        return exception.what();
    }
}

}  // namespace rhizome::world
