// What examples of messages have in common.

#pragma once

#include "messages/protocol/actors.hpp"
#include "tests/messages/wire_fixture.hpp"

namespace troupe::tests {
namespace {

using namespace troupe;
using namespace troupe::messages;

/// With something other than its default in every field.
template <class Message>
Message example(const wire& w) = delete;

}  // namespace
}  // namespace troupe::tests
