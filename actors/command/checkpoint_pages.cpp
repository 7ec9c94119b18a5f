#include "actors/command/checkpoint_pages.hpp"

#include "actors/command/help_text.hpp"
#include "runtime/core/counted.hpp"
#include "runtime/core/json_text.hpp"

#include <ctime>
#include <fmt/chrono.h>
#include <map>
#include <string_view>

namespace troupe::command {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;
using runtime::listed_checkpoint;

/// "identity    a b, c d": the members of an object; nested members appear with their paths.
std::string fields(const std::string& title, const json& of) {
  std::string text;
  const auto flat = of.empty() ? of : of.flatten();
  for (const auto& [path, value] : flat.items())
    text += (text.empty() ? "" : ", ") + path.substr(1) + " "
            + (value.is_string() ? value.get<std::string>() : runtime::json_text(value));
  return fmt::format("{:<{}}{}\n", title, title_width, wrapped(text, title_width, page_width));
}

/// "world 8 tp 2 pp 2": a layout without the axes of one rank. It has expert tensor ranks only if
/// they are not as many as tensor ranks.
std::string layout_text(const runtime::checkpoint_manifest& x) {
  const auto layout = runtime::json_value(x.layout);
  const std::pair<const char*, const char*> names[] = {{"world_size", "world"},
                                                       {"tensor_model_parallel_size", "tp"},
                                                       {"context_parallel_size", "cp"},
                                                       {"expert_model_parallel_size", "ep"},
                                                       {"expert_tensor_parallel_size", "etp"},
                                                       {"pipeline_model_parallel_size", "pp"}};
  std::string out;
  for (const auto& [key, name] : names)
    if (const auto found = layout.find(key);
        found != layout.end() && found->is_number_unsigned()
        && (out.empty() || *found != 1 || name == std::string_view("etp")))
      out += fmt::format("{}{} {}", out.empty() ? "" : " ", name, found->get<std::uint64_t>());
  return out;
}

/// A tensor, gathered from its pieces in all shards.
struct gathered {
  const runtime::stored_shard* first = nullptr;
  std::size_t pieces = 0;
};

std::map<std::string, gathered> tensors_of(const runtime::checkpoint_manifest& x) {
  std::map<std::string, gathered> out;
  for (const auto& shard : x.shards)
    for (const auto& piece : shard.pieces) {
      auto& one = out[piece.name];
      one.first = &piece;
      ++one.pieces;
    }
  return out;
}

std::string tensors_text(const std::map<std::string, gathered>& all) {
  std::string out;
  for (const auto& [name, x] : all) {
    const auto what = fmt::format("  {:<4} {:<16}{}",
                                  to_string(x.first->elements.type),
                                  to_string(x.first->whole),
                                  x.pieces == 1 ? "" : fmt::format(" {} pieces", x.pieces));
    const bool fits = std::max<std::size_t>(what.size(), 24) + 1 + name.size() <= page_width;
    out += fits ? fmt::format("{:<24} {}\n", what, name) : fmt::format("{}\n    {}\n", what, name);
  }
  return out;
}

}  // namespace

std::string minute(std::chrono::system_clock::time_point when) {
  if (when == std::chrono::system_clock::time_point())
    return "";
  return fmt::format("{:%Y-%m-%d %H:%M}",
                     fmt::localtime(std::chrono::system_clock::to_time_t(when)));
}

std::string list_page(const std::vector<listed_checkpoint>& all) {
  std::string out = fmt::format("{:>11} {:>11} {:>8}  {:<19} {:<16}  {}\n",
                                "iteration",
                                "samples",
                                "size",
                                "layout",
                                "saved",
                                "state");
  bool tracked = false;
  for (const auto& x : all) {
    tracked = tracked || x.tracked;
    out += fmt::format("{}{:>10} {:>11} {:>8}  {:<19} {:<16}  {}\n",
                       x.tracked ? '*' : ' ',
                       x.iteration,
                       x.manifest ? fmt::format("{}", x.manifest->consumed_samples) : "?",
                       runtime::human_bytes(double(x.bytes)),
                       x.manifest ? layout_text(*x.manifest) : "?",
                       minute(x.saved),
                       x.manifest ? "complete" : "damaged");
    if (!x.manifest)
      out += fmt::format("{:<{}}{}\n", "", title_width, wrapped(x.wrong, title_width, page_width));
  }
  if (!tracked)
    out += "latest_checkpointed_iteration.txt names none of them as the latest checkpoint.\n";
  return out;
}

ordered_json list_json(const std::vector<listed_checkpoint>& all) {
  auto out = ordered_json::array();
  for (const auto& x : all) {
    ordered_json one = {{"folder", x.folder.string()},
                        {"iteration", x.iteration},
                        {"tracked", x.tracked},
                        {"bytes", x.bytes},
                        {"saved", std::chrono::system_clock::to_time_t(x.saved)},
                        {"sound", x.manifest.has_value()},
                        {"wrong", x.wrong}};
    if (x.manifest) {
      one["consumed_samples"] = x.manifest->consumed_samples;
      one["layout"] = runtime::ordered_json_value(x.manifest->layout);
    }
    out.push_back(std::move(one));
  }
  return out;
}

std::string show_page(const listed_checkpoint& x, bool tensors) {
  const auto& m = *x.manifest;
  const auto all = tensors_of(m);
  auto identity = runtime::json_value(m.identity);
  identity.erase("model");  // has a line of its own
  std::size_t pieces = 0;
  for (const auto& [name, one] : all)
    pieces += one.pieces;
  auto out = fmt::format("folder      {}\n", x.folder.string())
             + fmt::format("iteration   {}, {} samples, generation {}{}\n",
                           m.iteration,
                           m.consumed_samples,
                           value(m.generation),
                           x.tracked ? "; latest checkpoint" : "")
             + fmt::format(
                 "saved       {}, {}\n", minute(x.saved), runtime::human_bytes(double(x.bytes)))
             + fields("model", runtime::json_value(to_json(m.model)))
             + fields("layout", runtime::json_value(m.layout)) + fields("identity", identity)
             + (m.products.empty()
                    ? ""
                    : fmt::format("products    {} matrix products with a recorded algorithm\n",
                                  m.products.size()))
             + fmt::format("tensors     {} in {} pieces\n", all.size(), pieces);
  for (const auto& shard : m.shards)
    out += fmt::format("shard       {:<44} {:>8} {:>6} pieces\n",
                       shard.file,
                       runtime::human_bytes(double(shard.bytes)),
                       shard.pieces.size());
  return tensors ? out + tensors_text(all) : out;
}

ordered_json show_json(const listed_checkpoint& x, bool tensors) {
  const auto& m = *x.manifest;
  ordered_json out = {{"folder", x.folder.string()},
                      {"iteration", m.iteration},
                      {"consumed_samples", m.consumed_samples},
                      {"generation", value(m.generation)},
                      {"tracked", x.tracked},
                      {"saved", std::chrono::system_clock::to_time_t(x.saved)},
                      {"bytes", x.bytes},
                      {"model", runtime::ordered_json_value(to_json(m.model))},
                      {"layout", runtime::ordered_json_value(m.layout)},
                      {"identity", runtime::ordered_json_value(m.identity)},
                      {"products", m.products}};
  out["shards"] = ordered_json::array();
  for (const auto& shard : m.shards)
    out["shards"].push_back({{"file", shard.file},
                             {"bytes", shard.bytes},
                             {"sha256", shard.sha256},
                             {"pieces", shard.pieces.size()}});
  if (!tensors)
    return out;
  out["tensors"] = ordered_json::array();
  for (const auto& [name, one] : tensors_of(m))
    out["tensors"].push_back(
        {{"name", name},
         {"dtype", to_string(one.first->elements.type)},
         {"shape", std::vector<std::int64_t>(one.first->whole.begin(), one.first->whole.end())},
         {"pieces", one.pieces}});
  return out;
}

}  // namespace troupe::command
