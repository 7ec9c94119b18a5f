#include "runtime/job/job_json.hpp"

#include "runtime/core/error.hpp"
#include "runtime/core/json_bytes.hpp"
#include "runtime/core/json_text.hpp"
#include "runtime/core/setting.hpp"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

namespace troupe::runtime {
namespace {

using nlohmann::json;

// The greatest value of each enum; the reader does not compile without one. A new last value of an
// enum must replace the one here.
constexpr auto last(decay_style) {
  return decay_style::wsd;
}
constexpr auto last(wsd_style) {
  return wsd_style::minus_sqrt;
}
constexpr auto last(increase_style) {
  return increase_style::cosine;
}
constexpr auto last(optimizer_kind) {
  return optimizer_kind::muon;
}
constexpr auto last(muon_scale) {
  return muon_scale::shape_scaling;
}
constexpr auto last(muon_coefficients) {
  return muon_coefficients::polar_express;
}
constexpr auto last(muon_tensor_mode) {
  return muon_tensor_mode::distributed;
}
constexpr auto last(sampling) {
  return sampling::cyclic_unsharded;
}
constexpr auto last(dtype) {
  return dtype::f16;
}  // other types are not a precision of training
constexpr auto last(recompute_granularity) {
  return recompute_granularity::full;
}
constexpr auto last(recompute_method) {
  return recompute_method::block;
}
constexpr auto last(kernels::backend) {
  return kernels::backend::cuda;
}
constexpr auto last(collectives) {
  return collectives::nccl_fast;
}
constexpr auto last(token_dispatcher) {
  return token_dispatcher::allgather;
}
constexpr auto last(source_sums) {
  return source_sums::together;
}
constexpr auto last(transports) {
  return transports::ucx;
}

std::string text_from(const json& from) {
  if (auto out = from_text_or_bytes(from))
    return *std::move(out);
  throw input_error("the description of a job has {} instead of a text", json_text(from));
}

template <class Number>
Number whole_number(const json& from, Number least, Number greatest) {
  const bool is_known = from.is_number_unsigned()
                            ? std::cmp_less_equal(from.get<std::uint64_t>(), greatest)
                            : from.is_number_integer()
                                  && std::cmp_greater_equal(from.get<std::int64_t>(), least)
                                  && std::cmp_less_equal(from.get<std::int64_t>(), greatest);
  if (!is_known)
    throw input_error("the description of a job has {} instead of a whole number from {} to {}",
                      json_text(from),
                      least,
                      greatest);
  return from.get<Number>();
}

double number(const json& from) {
  if (!from.is_string())
    return from.get<double>();
  const auto text = from.get<std::string>();
  if (text != "inf" && text != "-inf" && text != "nan" && text != "-nan")
    throw input_error("the description of a job has '{}' instead of a number", text);
  return std::stod(text);
}

struct writer {
  template <class Field>
  static json written(const Field& x) {
    if constexpr (has_fields<Field>) {
      auto out = json::object();
      for_each_field<Field>([&](const auto& row) {
        if (row.travels)
          out[row.key] = written(x.*row.member);
      });
      return out;
    } else if constexpr (std::is_enum_v<Field>) {
      return std::int64_t(x);
    } else {
      return x;
    }
  }
  static json written(double x) {  // JSON has no infinity
    return std::isfinite(x) ? json(x) : json(fmt::format("{}", x));
  }
  static json written(const std::string& x) { return text_or_bytes(x); }
  static json written(const std::filesystem::path& x) { return text_or_bytes(x.string()); }
  static json written(std::chrono::milliseconds x) { return x.count(); }
  static json written(const object_store&) { return {}; }  // stays
  static json written(const model_description& x) { return json_value(to_json(x)); }
  static json written(const extension& x) { return text_or_bytes(x.name); }
  static json written(const own_rate& x) { return x.at ? text_or_bytes(x.name) : json(); }
  static json written(const behaviour_factory& x) { return text_or_bytes(x.name); }
  template <class Element>
  static json written(const std::optional<Element>& x) {
    return x ? written(*x) : json();
  }
  template <class Element>
  static json written(const std::vector<Element>& x) {
    auto out = json::array();
    for (const auto& element : x)
      out.push_back(written(element));
    return out;
  }
};

template <class Function>
Function known_as(const std::string& name,
                  const std::map<std::string, Function>& known,
                  const char* what) {
  const auto found = known.find(name);
  if (found == known.end())
    throw input_error(
        "the job needs {} '{}', which this process has not registered: a function cannot be sent, "
        "so "
        "register it in every process that takes part",
        what,
        name);
  return found->second;
}

class reader {
 public:
  explicit reader(const registered_functions& known) : known_(known) {}

  template <class Field>
  void read(const json& from, Field& to) {
    if constexpr (has_fields<Field>) {
      for_each_field<Field>([&](const auto& row) {
        if (row.travels)
          read(from.at(row.key), to.*row.member);
      });
    } else if constexpr (std::is_enum_v<Field>) {
      to = Field(whole_number(from, 0, int(last(Field()))));
    } else if constexpr (std::is_integral_v<Field> && !std::is_same_v<Field, bool>) {
      to = whole_number(from, std::numeric_limits<Field>::min(), std::numeric_limits<Field>::max());
    } else {
      to = from.get<Field>();
    }
  }

 private:
  void read(const json& from, double& to) { to = number(from); }
  void read(const json& from, std::string& to) { to = text_from(from); }
  void read(const json& from, std::filesystem::path& to) { to = text_from(from); }
  void read(const json& from, std::chrono::milliseconds& to) {
    to = std::chrono::milliseconds(whole_number(
        from, std::numeric_limits<std::int64_t>::min(), std::numeric_limits<std::int64_t>::max()));
  }
  void read(const json&, object_store&) {}  // stays
  void read(const json& from, model_description& to) { to = model_from_json(json_text(from)); }
  void read(const json& from, extension& to) {
    if (const auto name = text_from(from); !name.empty())
      to = known_as(name, known_.extensions, "the model extension");
  }
  void read(const json& from, own_rate& to) {
    if (!from.is_null())
      to = known_as(text_from(from), known_.rates, "the learning rate");
  }
  void read(const json& from, behaviour_factory& to) {
    to = known_as(text_from(from), known_.behaviours, "the schedule");
  }
  template <class Element>
  void read(const json& from, std::optional<Element>& to) {
    if (!from.is_null())
      read(from, to.emplace());
  }
  template <class Element>
  void read(const json& from, std::vector<Element>& to) {
    to.clear();
    for (const auto& element : from)
      read(element, to.emplace_back());
  }

  const registered_functions& known_;
};

}  // namespace

registered_functions functions_of(const training_job& job) {
  registered_functions out;
  if (const auto& own = job.training.own; !own.name.empty())
    out.extensions.emplace(own.name, own);
  if (const auto& rate = job.training.rate_of; rate.at)
    out.rates.emplace(rate.name, rate);
  if (const auto& own = job.layout.schedule.own)
    out.behaviours.emplace(own->name, *own);
  return out;
}

std::string to_json(const training_job& job) {
  return json_text(writer::written(job));
}

training_job job_from_json(const std::string& text, const registered_functions& known) {
  try {
    const auto from = json_value(text);
    training_job out;
    reader(known).read(from, out);
    return out;
  } catch (const input_error&) {
    throw;
  } catch (const std::exception& failure) {
    throw input_error("the description of a job cannot be read: {}", failure.what());
  }
}

}  // namespace troupe::runtime
