"""CMS's own tools with this project's compiler: `cms_tfaot_compile`, `cmsml_check_aot_compatibility`, CMSDIST.

Behaviour, names of options, places of files and printed lines are those of cms-tfaot 1.0.1, cmsml 0.3 and cmsdist's
`tfaot-compile.file`.
"""
