// Continues prompts by beam search.

#pragma once

#include "runtime/inference/beam_search.hpp"
#include "runtime/inference/generator.hpp"

namespace troupe::runtime {

/// Searches for continuations of all prompts together, with a beam_search for each. Returns the
/// texts of each request, best first. Reads no sampling settings. Memory: that of `generate` with
/// `beams` times as many requests. `wanted` is called after each step; once it returns false, the
/// result is empty. Throws as `generate` does.
std::vector<std::vector<beam_text>> generate_beams(
    const chunk& whole,
    parameter_store& store,
    stream& stream,
    std::span<const generation_request> what,
    const beam_settings& settings,
    bool cached = true,
    const given_text* given = nullptr,
    const std::function<bool()>& wanted = [] { return true; });

/// How a text of the request ended.
generation_end end_of(const beam_text& text,
                      const generation_request& what,
                      const model_spec& model);

}  // namespace troupe::runtime
