// Common parts of the examples of messages.

#pragma once

#include "messages/protocol/actors.hpp"
#include "tests/messages/wire_fixture.hpp"

namespace troupe::tests {
namespace {

using namespace troupe;
using namespace troupe::messages;

/// An example of `Message`, with a non-default value in every field.
template <class Message>
Message example(const wire& w) = delete;

}  // namespace
}  // namespace troupe::tests
