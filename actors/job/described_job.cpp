#include "actors/job/described_job.hpp"

#include "runtime/core/error.hpp"
#include "runtime/core/json_bytes.hpp"
#include "runtime/core/json_list.hpp"
#include "runtime/core/json_text.hpp"
#include "runtime/process/fields.hpp"

namespace troupe::actors {
namespace {

using nlohmann::json;

template <class Value>
Value list_of(const json& of, const char* name, const std::string& what) {
  if (const auto found = of.find(name); found != of.end())
    if (auto out = runtime::value_of_json_list<Value>(*found))
      return *std::move(out);
  throw runtime::input_error("{}: '{}' is missing or invalid", what, name);
}

std::uint64_t count_of(const json& of, const char* name, const std::string& what) {
  return std::uint64_t(runtime::whole_field(of, name, what, 0));
}

double rate_of(const json& of, const std::string& what) {
  const auto found = of.find("matrix_rate");
  if (found == of.end() || !found->is_number())
    throw runtime::input_error("{}: 'matrix_rate' is missing, or is not a number", what);
  return found->get<double>();
}

}  // namespace

// Paths may hold any bytes.
std::string text_of(const messages::job_description& x) {
  const json all = {{"settings", x.settings},
                    {"identity", x.identity},
                    {"iteration", x.iteration},
                    {"consumed", x.consumed},
                    {"start", runtime::text_or_bytes(x.start)},
                    {"with_moments", x.with_moments},
                    {"save", runtime::text_or_bytes(x.save)},
                    {"skipped", runtime::json_list(x.skipped)},
                    {"scale", runtime::json_list(x.scale)},
                    {"validates", x.validates},
                    {"tests", x.tests},
                    {"matrix_rate", x.matrix_rate},
                    {"viewers", x.viewers}};
  return runtime::text_of_json(all, "the description of the job") + "\n";
}

messages::job_description read_job_description(const std::string& text, const std::string& what) {
  const auto all = runtime::read_object(text, what);
  return {.settings = runtime::text_field(all, "settings", what),
          .identity = runtime::text_field(all, "identity", what),
          .iteration = count_of(all, "iteration", what),
          .consumed = count_of(all, "consumed", what),
          .start = runtime::word_field(all, "start", what),
          .with_moments = runtime::flag_field(all, "with_moments", what),
          .save = runtime::word_field(all, "save", what),
          .skipped = list_of<runtime::skipped_steps>(all, "skipped", what),
          .scale = list_of<runtime::loss_scale>(all, "scale", what),
          .validates = runtime::flag_field(all, "validates", what),
          .tests = runtime::flag_field(all, "tests", what),
          .matrix_rate = rate_of(all, what),
          .viewers = runtime::texts_field(all, "viewers", what)};
}

}  // namespace troupe::actors
