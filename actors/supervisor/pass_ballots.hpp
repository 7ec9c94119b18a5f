// What two replicas had of passes that both have computed, as the ballots of a cross check.

#pragma once

#include "actors/supervisor/cross_check.hpp"
#include "messages/training/step.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace troupe::actors {

/// Output, input gradient and weight gradients of each pass. Of weight gradients that follow others
/// which came out otherwise there is none: neither are they judged, nor do they settle what an
/// earlier run of the step has left undecided.
void add_ballots(const std::vector<messages::checked_pass>& checked, std::vector<ballot>& to);

/// Of a ballot's pass, e.g. "output of micro-batch 3 of replica 0 by chunk 1"; where there are
/// several copies of the model, of which one.
std::string name_of_pass(std::uint64_t number, int copies);

}  // namespace troupe::actors
