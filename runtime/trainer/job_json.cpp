#include "runtime/trainer/job_json.hpp"

#include "runtime/core/error.hpp"
#include "runtime/data/utf8.hpp"

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

// Structured bindings name every field of a struct: one that is added does not compile without a
// line here.

template <class Visitor>
void visit_fields(Visitor& visit, adamw_settings& x) {
  auto& [beta1, beta2, epsilon, weight_decay, clip, moments_from] = x;
  visit("beta1", beta1);
  visit("beta2", beta2);
  visit("epsilon", epsilon);
  visit("weight_decay", weight_decay);
  visit("clip", clip);
  visit("moments_from", moments_from);
}

template <class Visitor>
void visit_fields(Visitor& visit, rate_schedule& x) {
  auto& [maximum, minimum, warmup_start, warmup, decay, style] = x;
  visit("maximum", maximum);
  visit("minimum", minimum);
  visit("warmup_start", warmup_start);
  visit("warmup", warmup);
  visit("decay", decay);
  visit("style", style);
}

template <class Visitor>
void visit_fields(Visitor& visit, batch_schedule& x) {
  auto& [micro, global, data_parallel, ramp_start, ramp_increment, ramp_samples] = x;
  visit("micro", micro);
  visit("global", global);
  visit("data_parallel", data_parallel);
  visit("ramp_start", ramp_start);
  visit("ramp_increment", ramp_increment);
  visit("ramp_samples", ramp_samples);
}

template <class Visitor>
void visit_fields(Visitor& visit, loss_scaling& x) {
  auto& [constant, initial, minimum, window, hysteresis] = x;
  visit("constant", constant);
  visit("initial", initial);
  visit("minimum", minimum);
  visit("window", window);
  visit("hysteresis", hysteresis);
}

template <class Visitor>
void visit_fields(Visitor& visit, recipe& x) {
  auto& [model, own, seed, optimizer, rate, rate_of, batch, precision, scaling, skippable] = x;
  visit("model", model);
  visit("own", own);
  visit("seed", seed);
  visit("optimizer", optimizer);
  visit("rate", rate);
  visit("rate_of", rate_of);
  visit("batch", batch);
  visit("precision", precision);
  visit("scaling", scaling);
  visit("skippable_in_a_row", skippable);
}

template <class Visitor>
void visit_fields(Visitor& visit, data_settings& x) {
  auto& [path, mock, split, cache, eod_mask_loss, reset_position_ids, end_of_document] = x;
  visit("path", path);
  visit("mock", mock);
  visit("split", split);
  visit("cache", cache);
  visit("eod_mask_loss", eod_mask_loss);
  visit("reset_position_ids", reset_position_ids);
  visit("end_of_document", end_of_document);
}

template <class Visitor>
void visit_fields(Visitor& visit, action_costs& x) {
  auto& [forward, input_gradients, weight_gradients, recompute, overlapped] = x;
  visit("forward", forward);
  visit("input_gradients", input_gradients);
  visit("weight_gradients", weight_gradients);
  visit("recompute", recompute);
  visit("overlapped", overlapped);
}

template <class Visitor>
void visit_fields(Visitor& visit, schedule_settings& x) {
  auto& [source, text, chunks_per_rank, group, memory_limit, costs, transfer, own] = x;
  visit("source", source);
  visit("text", text);
  visit("chunks_per_rank", chunks_per_rank);
  visit("group", group);
  visit("memory_limit", memory_limit);
  visit("costs", costs);
  visit("transfer", transfer);
  visit("own", own);
}

template <class Visitor>
void visit_fields(Visitor& visit, chunk_range& x) {
  auto& [first, end, embedding, head] = x;
  visit("first", first);
  visit("end", end);
  visit("embedding", embedding);
  visit("head", head);
}

template <class Visitor>
void visit_fields(Visitor& visit, layout_settings& x) {
  auto& [world, tensor, pipeline, order, sequence_parallel, replicas_per_worker, schedule, chunks]
      = x;
  visit("world", world);
  visit("tensor", tensor);
  visit("pipeline", pipeline);
  visit("order", order);
  visit("sequence_parallel", sequence_parallel);
  visit("replicas_per_worker", replicas_per_worker);
  visit("schedule", schedule);
  visit("chunks", chunks);
}

template <class Visitor>
void visit_fields(Visitor& visit, reduction_settings& x) {
  auto& [distributed_optimizer, bucket_size, overlap_gradients, overlap_parameters, grain] = x;
  visit("distributed_optimizer", distributed_optimizer);
  visit("bucket_size", bucket_size);
  visit("overlap_gradients", overlap_gradients);
  visit("overlap_parameters", overlap_parameters);
  visit("grain", grain);
}

template <class Visitor>
void visit_fields(Visitor& visit, recompute_settings& x) {
  auto& [granularity, method, layers, core_attention, feed_forward] = x;
  visit("granularity", granularity);
  visit("method", method);
  visit("layers", layers);
  visit("core_attention", core_attention);
  visit("feed_forward", feed_forward);
}

template <class Visitor>
void visit_fields(Visitor& visit, checkpoint_settings& x) {
  auto& [save,
         load,
         save_interval,
         load_hub,
         keep_last,
         finetune,
         no_load_optim,
         override_scheduler,
         use_checkpoint_scheduler,
         last_pause,
         strict_identity]
      = x;
  visit("save", save);
  visit("load", load);
  visit("save_interval", save_interval);
  visit("load_hub", load_hub);
  visit("keep_last", keep_last);
  visit("finetune", finetune);
  visit("no_load_optim", no_load_optim);
  visit("override_scheduler", override_scheduler);
  visit("use_checkpoint_scheduler", use_checkpoint_scheduler);
  visit("last_pause", last_pause);
  visit("strict_identity", strict_identity);
}

template <class Visitor>
void visit_fields(Visitor& visit, watch_settings& x) {
  auto& [log_interval,
         log_file,
         csv_file,
         board_dir,
         board_interval,
         trace_file,
         profile_file,
         schedule_record,
         eval_interval,
         eval_batches,
         log_throughput,
         matrix_rate,
         log_params_norm,
         log_zero_gradients,
         progress]
      = x;
  visit("log_interval", log_interval);
  visit("log_file", log_file);
  visit("csv_file", csv_file);
  visit("board_dir", board_dir);
  visit("board_interval", board_interval);
  visit("trace_file", trace_file);
  visit("profile_file", profile_file);
  visit("schedule_record", schedule_record);
  visit("eval_interval", eval_interval);
  visit("eval_batches", eval_batches);
  visit("log_throughput", log_throughput);
  visit("matrix_rate", matrix_rate);
  visit("log_params_norm", log_params_norm);
  visit("log_zero_gradients", log_zero_gradients);
  visit("progress", progress);
}

template <class Visitor>
void visit_fields(Visitor& visit, fault_settings& x) {
  auto& [seed, lane_delay_us, message_delay_us, fault] = x;
  visit("seed", seed);
  visit("lane_delay_us", lane_delay_us);
  visit("message_delay_us", message_delay_us);
  visit("fault", fault);
}

template <class Visitor>
void visit_fields(Visitor& visit, device_settings& x) {
  auto& [numbers, tf32, measure_products, product_choices, exchange] = x;
  visit("numbers", numbers);
  visit("tf32", tf32);
  visit("measure_products", measure_products);
  visit("product_choices", product_choices);
  visit("exchange", exchange);
}

template <class Visitor>
void visit_fields(Visitor& visit, training_job& x) {
  auto& [training,
         data,
         layout,
         reduction,
         recompute,
         checkpoints,
         watch,
         faults,
         train_iterations,
         exit_interval,
         threads_per_worker,
         backend,
         devices,
         transport,
         check_messages,
         tokenizer_description]
      = x;
  visit("training", training);
  visit("data", data);
  visit("layout", layout);
  visit("reduction", reduction);
  visit("recompute", recompute);
  visit("checkpoints", checkpoints);
  visit("watch", watch);
  visit("faults", faults);
  visit("train_iterations", train_iterations);
  visit("exit_interval", exit_interval);
  visit("threads_per_worker", threads_per_worker);
  visit("backend", backend);
  visit("devices", devices);
  visit("transport", transport);
  visit("check_messages", check_messages);
  visit("tokenizer_description", tokenizer_description);
}

// The greatest value of each choice: of a type that is not here the reader does not compile.
// Whoever adds a value at the end of one names it here.
constexpr auto last(decay_style) {
  return decay_style::cosine;
}
constexpr auto last(dtype) {
  return dtype::f16;
}  // others are nobody's precision
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
constexpr auto last(transports) {
  return transports::ucx;
}

// Paths and names may be any bytes, JSON is UTF-8.
json text_or_bytes(const std::string& x) {
  if (first_invalid_utf8(x) == std::string::npos)
    return x;
  std::string hex;
  for (const char c : x)
    hex += fmt::format("{:02x}", static_cast<unsigned char>(c));
  return {{"bytes", hex}};
}

std::string from_text_or_bytes(const json& from) {
  if (!from.is_object())
    return from.get<std::string>();
  const auto hex = from.at("bytes").get<std::string>();
  std::string out(hex.size() / 2, '\0');
  for (std::size_t i = 0; i < hex.size(); i += 2) {
    unsigned char byte = 0;
    const char* const end = hex.data() + std::min(i + 2, hex.size());
    if (const auto read = std::from_chars(hex.data() + i, end, byte, 16);
        read.ptr != end || read.ec != std::errc() || hex.size() % 2 != 0)
      throw input_error("the description of a job has bytes that are not hexadecimal: '{}'", hex);
    out[i / 2] = char(byte);
  }
  return out;
}

template <class Number>
Number whole_number(const json& from, Number least, Number greatest) {
  const bool is_known = from.is_number_unsigned()
                            ? std::cmp_less_equal(from.get<std::uint64_t>(), greatest)
                            : from.is_number_integer()
                                  && std::cmp_greater_equal(from.get<std::int64_t>(), least)
                                  && std::cmp_less_equal(from.get<std::int64_t>(), greatest);
  if (!is_known)
    throw input_error("the description of a job has {} where a whole number from {} to {} belongs",
                      from.dump(),
                      least,
                      greatest);
  return from.get<Number>();
}

double number(const json& from) {
  if (!from.is_string())
    return from.get<double>();
  const auto text = from.get<std::string>();
  if (text != "inf" && text != "-inf" && text != "nan" && text != "-nan")
    throw input_error("the description of a job has '{}' where a number belongs", text);
  return std::stod(text);
}

/// A field that is a struct of settings.
template <class Field>
constexpr bool has_fields = std::is_class_v<Field>;

class writer {
 public:
  json take() { return std::move(out_); }

  template <class Field>
  void operator()(const char* name, Field& x) {
    out_[name] = written(x);
  }

 private:
  template <class Field>
  static json written(Field& x) {
    if constexpr (has_fields<Field>) {
      writer inner;
      visit_fields(inner, x);
      return inner.take();
    } else if constexpr (std::is_enum_v<Field>) {
      return std::int64_t(x);
    } else {
      return x;
    }
  }
  static json written(double x) {  // JSON has no infinity
    return std::isfinite(x) ? json(x) : json(fmt::format("{}", x));
  }
  static json written(std::string& x) { return text_or_bytes(x); }
  static json written(std::filesystem::path& x) { return text_or_bytes(x.string()); }
  static json written(std::chrono::milliseconds& x) { return x.count(); }
  static json written(gpt_config& x) { return json::parse(to_json(x)); }
  static json written(extension& x) { return text_or_bytes(x.name); }
  static json written(own_rate& x) { return x.at ? text_or_bytes(x.name) : json(); }
  static json written(std::optional<behaviour_factory>& x) {
    return x ? text_or_bytes(x->name) : json();
  }
  template <class Element>
  static json written(std::optional<Element>& x) {
    return x ? written(*x) : json();
  }
  template <class Element>
  static json written(std::vector<Element>& x) {
    auto out = json::array();
    for (auto& element : x)
      out.push_back(written(element));
    return out;
  }

  json out_ = json::object();
};

template <class Function>
Function known_as(const std::string& name,
                  const std::map<std::string, Function>& known,
                  const char* what) {
  const auto found = known.find(name);
  if (found == known.end())
    throw input_error(
        "the job needs {} '{}', which this process does not have: a function cannot be sent, so "
        "register it in every process that takes part",
        what,
        name);
  return found->second;
}

class reader {
 public:
  reader(const json& from, const registered_functions& known) : from_(from), known_(known) {}

  template <class Field>
  void operator()(const char* name, Field& to) {
    read(from_.at(name), to);
  }

 private:
  template <class Field>
  void read(const json& from, Field& to) {
    if constexpr (has_fields<Field>) {
      reader inner(from, known_);
      visit_fields(inner, to);
    } else if constexpr (std::is_enum_v<Field>) {
      to = Field(whole_number(from, 0, int(last(Field()))));
    } else if constexpr (std::is_integral_v<Field> && !std::is_same_v<Field, bool>) {
      to = whole_number(from, std::numeric_limits<Field>::min(), std::numeric_limits<Field>::max());
    } else {
      to = from.get<Field>();
    }
  }
  void read(const json& from, double& to) { to = number(from); }
  void read(const json& from, std::string& to) { to = from_text_or_bytes(from); }
  void read(const json& from, std::filesystem::path& to) { to = from_text_or_bytes(from); }
  void read(const json& from, std::chrono::milliseconds& to) {
    to = std::chrono::milliseconds(from.get<std::int64_t>());
  }
  void read(const json& from, gpt_config& to) { to = gpt_config_from_json(from.dump()); }
  void read(const json& from, extension& to) {
    if (const auto name = from_text_or_bytes(from); !name.empty())
      to = known_as(name, known_.extensions, "the model extension");
  }
  void read(const json& from, own_rate& to) {
    if (!from.is_null())
      to = known_as(from_text_or_bytes(from), known_.rates, "the learning rate");
  }
  void read(const json& from, std::optional<behaviour_factory>& to) {
    if (!from.is_null())
      to = known_as(from_text_or_bytes(from), known_.behaviours, "the schedule");
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

  const json& from_;
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
  auto copy = job;  // the one list of fields is for reading, too
  writer out;
  visit_fields(out, copy);
  return out.take().dump();
}

training_job job_from_json(const std::string& text, const registered_functions& known) {
  try {
    const auto from = json::parse(text);
    training_job out;
    reader in(from, known);
    visit_fields(in, out);
    return out;
  } catch (const input_error&) {
    throw;
  } catch (const std::exception& failure) {
    throw input_error("the description of a job cannot be read: {}", failure.what());
  }
}

}  // namespace troupe::runtime
