#include "runtime/model/model_spec.hpp"

#include "runtime/core/error.hpp"

namespace troupe::runtime {

std::string model_spec::letters() const {
  std::string out;
  for (const auto& unit : units)
    out += unit.letter;
  return out;
}

std::int64_t model_spec::width_of(std::string_view stream) const {
  for (const auto& x : streams)
    if (x.name == stream)
      return x.width;
  throw broken_promise("MODEL-2: a unit works on a stream of its model");
}

void model_spec::missing_part() {
  throw broken_promise("MODEL-3: a model has the part that is asked for");
}

}  // namespace troupe::runtime
