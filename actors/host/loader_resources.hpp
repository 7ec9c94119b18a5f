// Resources of a process for its loader.

#pragma once

#include "actors/host/shared_resources.hpp"
#include "runtime/data/batch_source.hpp"

#include <memory>

namespace troupe::actors {

struct loader_resources : virtual shared_resources {
  std::shared_ptr<const runtime::batch_source> training = {}, validation = {}, test = {};
};

}  // namespace troupe::actors
