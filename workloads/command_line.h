#pragma once

namespace boost::program_options {
class options_description;
class variables_map;
}  // namespace boost::program_options

namespace ddl {

/** Options only, no words, and no abbreviations: a script's "--step" must not change its meaning when another option
 * comes along. Throws po::error. */
boost::program_options::variables_map parse_command_line(
    int argc, const char* const* argv, const boost::program_options::options_description& description);

}  // namespace ddl
