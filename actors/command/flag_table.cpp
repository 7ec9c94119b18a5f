#include "actors/command/flag_table.hpp"

#include "actors/command/help_text.hpp"
#include "actors/command/megatron/table.hpp"
#include "runtime/core/log.hpp"

#include <utility>

namespace troupe::command {
namespace {

/// Megatron-LM's second spellings.
void declare_spellings(command_line& line, training_flags& to) {
  auto& c = to.checkpoints;
  line.group("Other spellings");
  line.toggle("--override-opt-param-scheduler", "As --override-opt_param-scheduler.", [&c] {
    c.override_scheduler = true;
  });
  line.toggle("--use-checkpoint-opt-param-scheduler",
              "As --use-checkpoint-opt_param-scheduler.",
              [&c] { c.use_checkpoint_scheduler = true; });
  line.value("--persistent-save-interval",
             "N",
             "As --save-interval.",
             reader(whole(c.save_interval, 1, std::int64_t{1} << 53).take));
}

/// The flags that are harmless in one form only.
void declare_conditional(command_line& line, training_flags& to) {
  line.group("Understood in one form only");
  line.value(
      "--ckpt-format",
      "FORMAT",
      "torch_dist is accepted and means our own format: safetensors shards and a manifest.",
      reader(
          [](const std::string& flag, const std::string& word) {
            if (chosen(flag, word, {"troupe", "torch_dist"}) != "troupe")
              runtime::log_warning(
                  "{} {}: checkpoints are written in Troupe's own format, safetensors shards "
                  "with a manifest",
                  flag,
                  word);
          },
          {"troupe", "torch_dist"}));
  line.value("--dataloader-type",
             "TYPE",
             "single: samples in the order of the data set's index.",
             [](const std::string& flag, const std::string& word) {
               if (word != "single")
                 throw usage_error(
                     "{} {} is refused: samples come in the order of the data set's index; give "
                     "single",
                     flag,
                     word);
             });
  line.value("--data-impl",
             "IMPL",
             "mmap: the indexed format.",
             [](const std::string& flag, const std::string& word) {
               if (word != "mmap")
                 throw usage_error("{} {} is refused: the one format is mmap", flag, word);
             });
  line.toggle("--calculate-per-token-loss",
              "Accepted where it means the same: unless --eod-mask-loss, every sample has as many "
              "tokens that count.",
              [&to] { to.data.per_token_loss = true; });
}

/// "--a, --b X": as they stand in a list.
std::string listed(const megatron::flag_row& row) {
  std::string out;
  for (const auto& flag : megatron::names_in(row))
    out += (out.empty() ? "" : ", ") + flag.name + (flag.words > 0 ? " X" : "");
  return out;
}

}  // namespace

void declare_table(command_line& line, training_flags& to) {
  using enum megatron::standing;
  declare_conditional(line, to);
  declare_spellings(line, to);
  for (const auto& section : megatron::sections())
    for (const auto& row : section.rows)
      for (const auto& flag : megatron::names_in(row))
        if (row.what == accepted)
          line.accepted(flag.name, flag.words, row.note);
        else if (row.what != works)
          line.refused(flag.name, row.note);
  for (const auto& row : megatron::families())
    for (const auto& beginning : megatron::names_in(row))
      line.refused_family(beginning.name, row.note);
}

std::string megatron_help() {
  std::vector<help_section> page;
  for (const auto& section : megatron::sections()) {
    page.push_back({section.title, {}});
    for (const auto& row : section.rows)
      page.back().entries.push_back(
          {megatron::name_of(row.what),
           listed(row) + (row.note.empty() ? "" : ": " + row.note) + "."});
  }
  return format_help(
      "troupe train gpt",
      fmt::format("the flags of Megatron-LM's pretrain_gpt, as of {} ({}). works: means the same, "
                  "but for what is said. accepted: decides nothing here. coming: refused; a later "
                  "version is to have it. refused: for the reason that is said.",
                  megatron::commit_day,
                  std::string(megatron::commit).substr(0, 12)),
      page,
      {"Flags of other versions are refused by how they begin, or as unknown."});
}

std::string megatron_markdown() {
  std::string out;
  for (const auto& section : megatron::sections()) {
    out += (out.empty() ? "### " : "\n### ") + section.title + "\n\n";
    out += "| flags | here | |\n|---|---|---|\n";
    for (const auto& row : section.rows) {
      std::string names;
      for (const auto& flag : megatron::names_in(row))
        names += (names.empty() ? "`" : ", `") + flag.name + "`";
      out += fmt::format("| {} | {} | {} |\n", names, megatron::name_of(row.what), row.note);
    }
  }
  return out;
}

}  // namespace troupe::command
