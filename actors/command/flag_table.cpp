#include "actors/command/flag_table.hpp"

#include "actors/command/help_text.hpp"
#include "actors/command/megatron/table.hpp"
#include "runtime/core/log.hpp"
#include "runtime/family/model_family.hpp"

#include <algorithm>
#include <set>
#include <string>
#include <utility>

namespace troupe::command {
namespace {

/// Declares second spellings of Megatron-LM's flags.
void declare_spellings(command_line& line, training_flags& to) {
  auto& c = to.job.checkpoints;
  line.group("Other spellings");
  line.toggle(
      {.name = "--override-opt-param-scheduler",
       .help = "As --override-opt_param-scheduler.",
       .megatron
       = "without one of the two, a rate that differs from the checkpoint's is refused at resume"},
      [&c] { c.override_scheduler = true; });
  line.toggle(
      {.name = "--use-checkpoint-opt-param-scheduler",
       .help = "As --use-checkpoint-opt_param-scheduler.",
       .megatron
       = "without one of the two, a rate that differs from the checkpoint's is refused at resume"},
      [&c] { c.use_checkpoint_scheduler = true; });
  line.value({.name = "--persistent-save-interval",
              .type = "N",
              .unit = "steps",
              .help = "As --save-interval.",
              .megatron = "the last step is saved, too"},
             alias(whole(c.save_interval, 1, largest_count)));
}

/// Declares flags that are accepted with one value only.
void declare_conditional(command_line& line) {
  line.group("Understood in one form only");
  line.value(
      {.name = "--ckpt-format",
       .type = "FORMAT",
       .help
       = "torch_dist is accepted and means our own format: safetensors shards and a manifest.",
       .megatron = "torch_dist is taken for our own format, with a warning; others are refused"},
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
  line.value({.name = "--data-impl",
              .type = "IMPL",
              .help = "mmap: the indexed format.",
              .megatron = "mmap only"},
             [](const std::string& flag, const std::string& word) {
               if (word != "mmap")
                 throw usage_error("{} {} is refused: the one format is mmap", flag, word);
             });
}

/// The flags of a row as a list: "--a, --b X".
std::string listed(const megatron::flag_row& row) {
  std::string out;
  for (const auto& flag : megatron::names_in(row))
    out += (out.empty() ? "" : ", ") + flag.name + (flag.words > 0 ? " X" : "");
  return out;
}

/// The settings of a group that Megatron-LM has too: one row per note.
std::vector<megatron::flag_row> works_in(const flag_group& group) {
  std::vector<megatron::flag_row> out;
  for (const auto& flag : group.flags) {
    if (!flag.megatron)
      continue;
    auto row = std::find_if(
        out.begin(), out.end(), [&](const auto& x) { return x.note == *flag.megatron; });
    if (row == out.end())
      row = out.insert(row, {megatron::standing::works, *flag.megatron, ""});
    row->names += (row->names.empty() ? "" : " ") + flag.name;
  }
  return out;
}

command_description described(const runtime::model_family& family) {
  training_flags flags(family);
  command_line line("", "");
  declare(line, flags);
  return line.describe();
}

std::set<std::string> flags_of(const command_description& x) {
  std::set<std::string> out;
  for (const auto& group : x.groups)
    for (const auto& flag : group.flags)
      out.insert(flag.name);
  return out;
}

/// Returns the flags of `row` that `known` lacks, and adds them to it.
std::string others_in(const megatron::flag_row& row, std::set<std::string>& known) {
  std::string out;
  for (const auto& flag : megatron::names_in(row))
    if (known.insert(flag.name).second)
      out += flag.name + (flag.words > 0 ? " X " : " ");
  return out;
}

/// Why another family's command refuses a flag of `other`.
std::string has_it(const runtime::model_family& other) {
  return fmt::format("`troupe train {}` has it", other.name());
}

/// All sections of the table: first the groups of the help, each with its working flags before its
/// other flags, then the other sections, then the flags of other families.
std::vector<megatron::flag_section> whole_table(const runtime::model_family& family) {
  const auto about = described(family);
  auto known = flags_of(about);
  std::vector<megatron::flag_section> out;
  for (const auto& group : about.groups)
    if (auto rows = works_in(group); !rows.empty())
      out.push_back({group.title, std::move(rows)});
  for (auto& section : megatron::sections()) {
    for (auto& row : section.rows)
      row.names = others_in(row, known);
    std::erase_if(section.rows, [](const auto& row) { return row.names.empty(); });
    const auto same = std::find_if(
        out.begin(), out.end(), [&](const auto& x) { return x.title == section.title; });
    if (same == out.end())
      out.push_back(std::move(section));
    else
      same->rows.insert(same->rows.end(), section.rows.begin(), section.rows.end());
  }
  for (const auto* other : runtime::families()) {
    megatron::flag_row only{megatron::standing::refused, has_it(*other)};
    for (const auto& group : described(*other).groups)
      for (const auto& row : works_in(group))
        only.names += others_in(row, known);
    if (!only.names.empty())
      out.push_back({fmt::format("Model: {}", other->title()), {std::move(only)}});
  }
  return out;
}

}  // namespace

void declare_table(command_line& line, training_flags& to) {
  using enum megatron::standing;
  // A family may have flags that Megatron-LM has for other models.
  const auto own = flags_of(line.describe());
  declare_conditional(line);
  declare_spellings(line, to);
  for (const auto& section : megatron::sections())
    for (const auto& row : section.rows)
      for (const auto& flag : megatron::names_in(row))
        if (own.contains(flag.name))
          continue;
        else if (row.what == accepted)
          line.accepted(flag.name, flag.words, row.note);
        else
          line.refused(flag.name, row.note);
  for (const auto* other : runtime::families()) {
    auto asked = other->asked();
    for (const auto& x : other->bind(asked))
      if (!own.contains(x.flag->name))
        line.answers(x.flag->name, has_it(*other));
  }
  for (const auto& row : megatron::families())
    for (const auto& beginning : megatron::names_in(row))
      line.refused_family(beginning.name, row.note);
}

std::string megatron_help(const runtime::model_family& family) {
  std::vector<help_section> page;
  for (const auto& section : whole_table(family)) {
    page.push_back({section.title, {}});
    for (const auto& row : section.rows)
      page.back().entries.push_back(
          {megatron::name_of(row.what),
           listed(row) + (row.note.empty() ? "" : ": " + row.note) + "."});
  }
  return format_help(
      fmt::format("troupe train {}", family.name()),
      fmt::format(
          "the flags of Megatron-LM's pretrain_gpt, as of {} ({}). works: the same "
          "meaning, except as noted. accepted: has no effect here. coming: refused; planned for a "
          "later version. refused: for the given reason.",
          megatron::commit_day,
          std::string(megatron::commit).substr(0, 12)),
      page,
      {"Flags of other versions are refused by their prefix, or as unknown."});
}

std::string megatron_markdown(const runtime::model_family& family) {
  std::string out;
  for (const auto& section : whole_table(family)) {
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
