// The beam search of `troupe generate`.

#include "actors/command/generate.hpp"

namespace troupe::command {
namespace {

constexpr std::int64_t most_beams = 256;

runtime::beam_stop stop_of(const std::string& early_stopping) {
  if (early_stopping == "true")
    return runtime::beam_stop::full;
  return early_stopping == "never" ? runtime::beam_stop::never : runtime::beam_stop::likely;
}

const runtime::given_text* before(const runtime::loaded_model& model) {
  return model.before() ? &*model.before() : nullptr;
}

}  // namespace

std::optional<runtime::beam_settings> beams_of(const generate_flags& flags) {
  if (flags.beams == 1) {
    if (flags.returned != 1 || flags.length_penalty != 1 || flags.early_stopping != "false")
      throw usage_error(
          "--return-beams, --length-penalty and --early-stopping need a beam search: add "
          "--beam-size N, above 1");
    return {};
  }
  if (sampling_of(flags) != runtime::sampling_settings())
    throw usage_error(
        "--beam-size {} searches for the most probable text and samples nothing: leave out "
        "--greedy, --seed, and the flags that change probabilities",
        flags.beams);
  if (flags.returned > flags.beams)
    throw usage_error("--return-beams {} needs as many beams: give --beam-size {} or more",
                      flags.returned,
                      flags.returned);
  if (flags.returned > 1 && flags.prompts.empty())
    throw usage_error("--return-beams {} needs --prompts FILE: add it", flags.returned);
  if (!flags.record_choices.empty())
    throw usage_error("--record-expert-choices and --beam-size exclude each other: give one");
  return runtime::beam_settings{.beams = flags.beams,
                                .returned = flags.returned,
                                .length_penalty = flags.length_penalty,
                                .stop = stop_of(flags.early_stopping)};
}

std::vector<runtime::generation_end> continue_texts(
    runtime::loaded_model& model,
    const generate_flags& flags,
    std::span<const runtime::generation_request> what,
    const runtime::token_visitor& visit,
    runtime::choice_text_writer* record) {
  return runtime::generate(model.whole(),
                           model.store(),
                           model.stream(),
                           what,
                           visit,
                           flags.cached,
                           record,
                           before(model));
}

std::vector<std::vector<runtime::beam_text>> search_texts(
    runtime::loaded_model& model,
    const generate_flags& flags,
    const runtime::beam_settings& settings,
    std::span<const runtime::generation_request> what,
    const std::function<bool()>& wanted) {
  return runtime::generate_beams(model.whole(),
                                 model.store(),
                                 model.stream(),
                                 what,
                                 settings,
                                 flags.cached,
                                 before(model),
                                 wanted);
}

void declare_beams(command_line& line, generate_flags& f) {
  line.group("Beam search");
  line.value({.name = "--beam-size",
              .type = "N",
              .unit = "beams",
              .help = "Searches for the most probable text with this number of partial texts, "
                      "instead of sampling; prints it at its end. 1: no search."},
             whole(f.beams, 1, most_beams));
  line.value("--length-penalty",
             "X",
             "Ranks ended texts by log-probability / tokens^X: above 0 favours long texts, below 0 "
             "short ones.",
             real(f.length_penalty, -10, 10));
  line.value(
      {.name = "--early-stopping",
       .type = "RULE",
       .help = "Ends a search that has as many ended texts as beams: true: at once; false: if the "
               "best beam has no better score at its length; never: at no length that it may "
               "reach. As in transformers."},
      one_of(f.early_stopping, {"false", "true", "never"}));
  line.value({.name = "--return-beams",
              .type = "N",
              .unit = "texts",
              .help = "With --prompts: writes the best N texts of each search as a list `beams`."},
             whole(f.returned, 1, most_beams));
}

}  // namespace troupe::command
