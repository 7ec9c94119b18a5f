// Ballots of a cross check, from passes that two replicas have computed.

#pragma once

#include "actors/supervisor/cross_check.hpp"
#include "messages/training/step.hpp"
#include "runtime/layout/seats.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace troupe::actors {

/// Adds ballots for the output, input gradient and weight gradients of each pass. Skips weight
/// gradients that follow from differing inputs: they are neither judged nor settle an open case.
/// Breaks STEP-11 for ranks outside the job, and VERIFY-2 if the two have other parameters.
void add_ballots(const std::vector<messages::checked_pass>& checked,
                 const runtime::seats& seats,
                 std::vector<ballot>& to);

/// Name of a ballot's pass: "output of micro-batch 3 of replica 0 by chunk 1", with the copy of the
/// model when there are several.
std::string name_of_pass(std::uint64_t number, int copies);

}  // namespace troupe::actors
