// Checks that code refuses a broken promise.

#pragma once

#include "runtime/core/error.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_exception.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

/// Checks that the expression throws broken_promise with this name:
/// CHECK_BREAKS("BOX-1", intersection(a, b)).
#define CHECK_BREAKS(name, ...)                         \
  CHECK_THROWS_MATCHES((__VA_ARGS__),                   \
                       troupe::runtime::broken_promise, \
                       Catch::Matchers::MessageMatches(Catch::Matchers::StartsWith(name ":")))
